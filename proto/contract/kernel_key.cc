#include "contract/kernel_key.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache {
namespace {

constexpr std::string_view kProgramSchema = "kcache-program-v1";
constexpr std::string_view kArtifactSchema = "kcache-artifact-v1";
constexpr std::string_view kHandleSchema = "kcache-handle-v1";
constexpr std::string_view kSpecializationSchema = "kcache-specialization-v1";

absl::Status BadField(std::string_view field, std::string_view value, std::string_view why) {
  return MakeError(v1::BAD_REQUEST,
                   absl::StrCat(AbslView(field), " ", AbslView(Quoted(value)), " ", AbslView(why)),
                   {{"field", std::string(field)}});
}

absl::Status CheckText(std::string_view field, std::string_view value) {
  if (!IsValidUtf8(value)) {
    return MakeError(v1::INVALID_UTF8,
                     absl::StrCat(AbslView(field), " ", AbslView(Quoted(value)), " is not UTF-8"),
                     {{"field", std::string(field)}});
  }
  if (value.find('\0') != std::string_view::npos) {
    return BadField(field, value, "contains a zero byte");
  }
  return absl::OkStatus();
}

absl::Status CheckName(std::string_view field, std::string_view name) {
  if (name.empty()) return BadField(field, name, "is empty");
  return CheckText(field, name);
}

// Headers are written below a directory of the compile worker's under exactly this name.
absl::Status CheckHeaderName(std::string_view name) {
  constexpr std::string_view kField = "header name";
  if (absl::Status status = CheckName(kField, name); !status.ok()) return status;
  if (name.front() == '/') return BadField(kField, name, "is absolute");
  for (size_t start = 0; start <= name.size();) {
    const size_t slash = std::min(name.find('/', start), name.size());
    const std::string_view component = name.substr(start, slash - start);
    if (component.empty()) return BadField(kField, name, "has an empty path component");
    if (component == "..") return BadField(kField, name, "leaves its tree with \"..\"");
    start = slash + 1;
  }
  return absl::OkStatus();
}

absl::Status CheckDigest(std::string_view field, std::string_view digest) {
  if (digest.size() == Digest::kBytes) return absl::OkStatus();
  return MakeError(
      v1::BAD_REQUEST,
      absl::StrCat(AbslView(field), " has ", digest.size(), " bytes, not ", Digest::kBytes),
      {{"field", std::string(field)}});
}

// The items ordered by name; fails when two have the same one.
template <typename Items>
auto SortedByName(std::string_view field, const Items& items)
    -> absl::StatusOr<std::vector<const typename Items::value_type*>> {
  std::vector<const typename Items::value_type*> sorted;
  sorted.reserve(static_cast<size_t>(items.size()));
  for (const auto& item : items) sorted.push_back(&item);
  std::sort(sorted.begin(), sorted.end(),
            [](const auto* a, const auto* b) { return a->name() < b->name(); });
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end(),
                                        [](auto* a, auto* b) { return a->name() == b->name(); });
  if (twice != sorted.end()) return BadField(field, (*twice)->name(), "is given twice");
  return sorted;
}

absl::Status HashHeaders(const v1::ProgramManifest& manifest, FieldHasher* hasher) {
  for (const v1::HeaderRef& header : manifest.headers()) {
    if (absl::Status status = CheckHeaderName(header.name()); !status.ok()) return status;
    if (absl::Status status = CheckDigest(
            absl::StrCat("digest of header ", AbslView(Quoted(header.name()))), header.digest());
        !status.ok()) {
      return status;
    }
  }
  const auto sorted = SortedByName("header", manifest.headers());
  if (!sorted.ok()) return sorted.status();
  hasher->Count(sorted->size());
  for (const v1::HeaderRef* header : *sorted) {
    hasher->Field(header->name()).Field(header->digest());
  }
  return absl::OkStatus();
}

absl::Status HashDefines(const v1::ProgramManifest& manifest, FieldHasher* hasher) {
  for (const v1::Define& define : manifest.defines()) {
    absl::Status status = CheckName("define", define.name());
    if (status.ok()) status = CheckText("value of a define", define.value());
    if (!status.ok()) return status;
  }
  const auto sorted = SortedByName("define", manifest.defines());
  if (!sorted.ok()) return sorted.status();
  hasher->Count(sorted->size());
  for (const v1::Define* define : *sorted) {
    // -DNAME and -DNAME= are different programs.
    hasher->Field(define->name()).Integer(define->has_value() ? 1 : 0).Field(define->value());
  }
  return absl::OkStatus();
}

absl::Status HashFlags(const v1::ProgramManifest& manifest, FieldHasher* hasher) {
  hasher->Count(static_cast<size_t>(manifest.flags_size()));
  for (const std::string& flag : manifest.flags()) {
    if (absl::Status status = CheckText("flag", flag); !status.ok()) return status;
    hasher->Field(flag);
  }
  return absl::OkStatus();
}

absl::Status HashNameExpressions(const v1::ProgramManifest& manifest, FieldHasher* hasher) {
  std::set<std::string_view> expressions;
  for (const std::string& expression : manifest.name_expressions()) {
    if (absl::Status status = CheckName("name expression", expression); !status.ok()) {
      return status;
    }
    expressions.insert(expression);
  }
  hasher->Count(expressions.size());
  for (const std::string_view expression : expressions) hasher->Field(expression);
  return absl::OkStatus();
}

// A dimension that is not given is 1 as soon as another one is; (0, 0, 0) is "not given" as a
// whole.
std::array<uint32_t, 3> Normalized(const v1::Dim3& size) {
  if (size.x() == 0 && size.y() == 0 && size.z() == 0) return {0, 0, 0};
  return {std::max(size.x(), 1U), std::max(size.y(), 1U), std::max(size.z(), 1U)};
}

absl::Status HashLaunchShapes(const v1::ProgramManifest& manifest, FieldHasher* hasher) {
  std::set<std::tuple<std::string_view, std::array<uint32_t, 3>>> shapes;
  for (const v1::LaunchShape& shape : manifest.launch_shapes()) {
    if (absl::Status status = CheckName("entry of a launch shape", shape.entry()); !status.ok()) {
      return status;
    }
    shapes.emplace(shape.entry(), Normalized(shape.local_size()));
  }
  hasher->Count(shapes.size());
  for (const auto& [entry, size] : shapes) {
    hasher->Field(entry).Integer(size[0]).Integer(size[1]).Integer(size[2]);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Digest> ProgramDigest(const v1::ProgramManifest& manifest) {
  FieldHasher hasher(kProgramSchema);
  absl::Status status = CheckName("language", manifest.language());
  if (status.ok()) status = CheckDigest("source_digest", manifest.source_digest());
  if (!status.ok()) return status;
  // source_bytes is not a field: the digest says it all, and a wrong size must not make a new key.
  hasher.Field(manifest.language()).Field(manifest.source_digest());
  status = HashHeaders(manifest, &hasher);
  if (status.ok()) status = HashDefines(manifest, &hasher);
  if (status.ok()) status = HashFlags(manifest, &hasher);
  if (status.ok()) status = HashNameExpressions(manifest, &hasher);
  if (status.ok()) status = HashLaunchShapes(manifest, &hasher);
  if (!status.ok()) return status;
  return hasher.Finish();
}

Digest ArtifactKey(const ArtifactFields& fields) {
  return FieldHasher(kArtifactSchema)
      .Field(fields.program)
      .Field(fields.framework)
      .Field(fields.architecture)
      .Field(fields.compiler_fingerprint)
      .Field(fields.driver_version)
      .Field(fields.trust_domain)
      .Finish();
}

namespace {

absl::StatusOr<std::string> HashSpecialization(const v1::Specialization& specialization) {
  std::vector<const v1::SpecializationConstant*> constants;
  for (const v1::SpecializationConstant& constant : specialization.constants()) {
    const size_t bytes = constant.value().size();
    if (bytes != 4 && bytes != 8) {
      return MakeError(v1::BAD_REQUEST, absl::StrCat("specialization constant ", constant.id(),
                                                     " has ", bytes, " bytes, not 4 or 8"));
    }
    constants.push_back(&constant);
  }
  std::sort(constants.begin(), constants.end(),
            [](const auto* a, const auto* b) { return a->id() < b->id(); });
  for (size_t i = 1; i < constants.size(); ++i) {
    if (constants[i]->id() == constants[i - 1]->id()) {
      return MakeError(v1::BAD_REQUEST, absl::StrCat("specialization constant ", constants[i]->id(),
                                                     " is given twice"));
    }
  }
  FieldHasher hasher(kSpecializationSchema);
  hasher.Count(constants.size());
  for (const v1::SpecializationConstant* constant : constants) {
    hasher.Integer(constant->id()).Field(constant->value());
  }
  for (const uint32_t dimension : Normalized(specialization.local_size())) {
    hasher.Integer(dimension);
  }
  return hasher.Finish().str();
}

}  // namespace

absl::StatusOr<std::string> SpecializationBytes(const v1::Specialization& specialization) {
  // Most kernels have none.
  static const std::string* const none = new std::string(*HashSpecialization({}));
  if (specialization.constants().empty() && !specialization.has_local_size()) return *none;
  return HashSpecialization(specialization);
}

Digest HandleKey(const HandleFields& fields) {
  return FieldHasher(kHandleSchema)
      .Field(fields.artifact)
      .Field(fields.entry)
      .Field(fields.specialization)
      .Field(fields.device.framework)
      .Integer(fields.device.index)
      .Field(fields.trust_domain)
      .Integer(fields.generation)
      .Finish();
}

}  // namespace kcache
