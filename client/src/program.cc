#include "kcache/program.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/src/state.h"
#include "contract/error_reason.h"
#include "contract/kernel_key.h"
#include "contract/strings.h"

namespace kcache {
namespace {

namespace fs = std::filesystem;

// Of one include directory: a slip ("/") must end with a message, not with a full memory.
constexpr uint64_t kMaxSnapshotBytes = 256u << 20;
constexpr size_t kMaxSnapshotFiles = 65536;

bool LooksLikeSource(const fs::path& file) {
  static constexpr std::array<std::string_view, 15> kExtensions = {
      ".h",   ".hh", ".hpp", ".hxx",  ".cuh",  ".inc", ".inl", ".cl",
      ".clh", ".cu", ".hip", ".glsl", ".comp", ".def", ".ipp"};
  const std::string extension = file.extension().string();
  return std::find(kExtensions.begin(), kExtensions.end(), extension) != kExtensions.end();
}

absl::StatusOr<std::string> ReadWholeFile(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string content(std::istreambuf_iterator<char>(in), {});
  if (!in.is_open() || in.bad()) {
    return MakeError(absl::StatusCode::kNotFound, v1::BAD_REQUEST,
                     absl::StrCat("cannot read ", Quoted(file.string())));
  }
  return content;
}

}  // namespace

absl::StatusOr<Program> Program::FromSource(std::string language, std::string source) {
  return ProgramBuilder(std::move(language), std::move(source)).Build();
}

std::string Program::digest() const { return state_ == nullptr ? "" : state_->digest.hex(); }

const std::string& Program::language() const {
  static const std::string* const kNone = new std::string;
  return state_ == nullptr ? *kNone : state_->manifest.language();
}

ProgramBuilder::ProgramBuilder(std::string language, std::string source)
    : state_(std::make_unique<internal::ProgramState>()) {
  state_->manifest.set_language(std::move(language));
  state_->manifest.set_source_digest(Digest::Of(source).str());
  state_->manifest.set_source_bytes(source.size());
  state_->source = std::move(source);
}

ProgramBuilder::~ProgramBuilder() = default;
ProgramBuilder::ProgramBuilder(ProgramBuilder&&) noexcept = default;
ProgramBuilder& ProgramBuilder::operator=(ProgramBuilder&&) noexcept = default;

ProgramBuilder& ProgramBuilder::AddHeader(std::string name, std::string content) {
  v1::HeaderRef* header = state_->manifest.add_headers();
  header->set_name(name);
  header->set_digest(Digest::Of(content).str());
  state_->headers.emplace_back(std::move(name), std::move(content));
  return *this;
}

ProgramBuilder& ProgramBuilder::AddIncludeDirectory(const std::string& directory, bool all_files) {
  std::error_code error;
  std::vector<fs::path> files;
  fs::recursive_directory_iterator walk(directory, fs::directory_options::skip_permission_denied,
                                        error);
  uint64_t bytes = 0;
  for (; !error && walk != fs::recursive_directory_iterator(); walk.increment(error)) {
    std::error_code ignored;
    if (!walk->is_regular_file(ignored)) continue;
    if (!all_files && !LooksLikeSource(walk->path())) continue;
    files.push_back(walk->path());
    bytes += walk->file_size(ignored);
    if (bytes > kMaxSnapshotBytes || files.size() > kMaxSnapshotFiles) {
      error_.Update(MakeError(
          v1::LIMIT_EXCEEDED,
          absl::StrCat("include directory ", Quoted(directory), " holds more than ",
                       kMaxSnapshotFiles, " files or ", kMaxSnapshotBytes, " bytes of headers"),
          {{"limit", "max_snapshot_bytes"}}));
      return *this;
    }
  }
  if (error) {
    error_.Update(
        MakeError(absl::StatusCode::kNotFound, v1::BAD_REQUEST,
                  absl::StrCat("include directory ", Quoted(directory), ": ", error.message())));
    return *this;
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    absl::StatusOr<std::string> content = ReadWholeFile(file);
    if (!content.ok()) {
      error_.Update(content.status());
      return *this;
    }
    AddHeader(file.lexically_relative(directory).generic_string(), *std::move(content));
  }
  return *this;
}

ProgramBuilder& ProgramBuilder::Define(std::string name, std::optional<std::string> value) {
  v1::Define* define = state_->manifest.add_defines();
  define->set_name(std::move(name));
  if (value.has_value()) define->set_value(*std::move(value));
  return *this;
}

ProgramBuilder& ProgramBuilder::Flag(std::string flag) {
  state_->manifest.add_flags(std::move(flag));
  return *this;
}

ProgramBuilder& ProgramBuilder::NameExpression(std::string expression) {
  state_->manifest.add_name_expressions(std::move(expression));
  return *this;
}

ProgramBuilder& ProgramBuilder::LaunchShape(std::string entry, Dim3 local_size) {
  v1::LaunchShape* shape = state_->manifest.add_launch_shapes();
  shape->set_entry(std::move(entry));
  shape->mutable_local_size()->set_x(local_size.x);
  shape->mutable_local_size()->set_y(local_size.y);
  shape->mutable_local_size()->set_z(local_size.z);
  return *this;
}

absl::StatusOr<Program> ProgramBuilder::Build() {
  std::unique_ptr<internal::ProgramState> state =
      std::exchange(state_, std::make_unique<internal::ProgramState>());
  if (absl::Status error = std::exchange(error_, absl::OkStatus()); !error.ok()) return error;
  // Protobuf refuses strings that are not UTF-8 only when they arrive; here the caller is told
  // which.
  absl::StatusOr<Digest> digest = ProgramDigest(state->manifest);
  if (!digest.ok()) return digest.status();
  state->digest = *digest;
  return Program(std::shared_ptr<const internal::ProgramState>(std::move(state)));
}

}  // namespace kcache
