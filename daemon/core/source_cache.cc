#include "daemon/core/source_cache.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/strings.h"
#include "daemon/core/errors.h"

namespace kcache::core {
namespace {

absl::StatusOr<Digest> BlobDigest(std::string_view bytes, std::string_view field) {
  auto digest = Digest::FromBytes(bytes);
  if (!digest.ok()) {
    return BadRequest(absl::StrCat(AbslView(field), " has ", bytes.size(),
                                   " bytes; a SHA-256 digest has 32"));
  }
  return *digest;
}

// Every blob the manifest names, the source first.
absl::StatusOr<std::vector<Digest>> BlobsOf(const v1::ProgramManifest& manifest) {
  std::vector<Digest> digests;
  digests.reserve(1 + manifest.headers_size());
  auto source = BlobDigest(manifest.source_digest(), "manifest.source_digest");
  if (!source.ok()) return source.status();
  digests.push_back(*source);
  for (const v1::HeaderRef& header : manifest.headers()) {
    auto digest = BlobDigest(header.digest(), absl::StrCat("digest of header ",
                                                           AbslView(Quoted(header.name()))));
    if (!digest.ok()) return digest.status();
    digests.push_back(*digest);
  }
  return digests;
}

}  // namespace

bool IsSubmitted(std::string_view language) {
  return language == "binary" || language == "spirv" || language == "ptx";
}

absl::Status SourceCache::Validate(const v1::ProgramManifest& manifest) const {
  if (manifest.language().empty()) return BadRequest("manifest.language is empty");
  if (manifest.source_bytes() > limits_->max_source_bytes) {
    return LimitExceeded("max_source_bytes", limits_->max_source_bytes,
                         absl::StrCat("the source has ", manifest.source_bytes(), " bytes"));
  }
  if (static_cast<uint32_t>(manifest.headers_size()) > limits_->max_headers) {
    return LimitExceeded("max_headers", limits_->max_headers,
                         absl::StrCat("the program has ", manifest.headers_size(), " headers"));
  }
  for (const v1::HeaderRef& header : manifest.headers()) {
    const std::string& name = header.name();
    const bool climbs = name == ".." || name.starts_with("../") || name.ends_with("/..") ||
                        name.find("/../") != std::string::npos;
    if (name.empty() || name.front() == '/' || climbs || name.find('\0') != std::string::npos) {
      return BadRequest(absl::StrCat("header name ", AbslView(Quoted(name)),
                                     " is not a relative path without \"..\""));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Digest>> SourceCache::Missing(const std::string& domain,
                                                         const v1::ProgramManifest& manifest) {
  if (absl::Status valid = Validate(manifest); !valid.ok()) return valid;
  auto digests = BlobsOf(manifest);
  if (!digests.ok()) return digests.status();
  const Domain& shown = domains_[domain];
  absl::flat_hash_set<Digest> seen;
  std::vector<Digest> missing;
  for (const Digest& digest : *digests) {
    if (!seen.insert(digest).second) continue;
    if (!shown.blobs.contains(digest) || !blobs_.contains(digest)) missing.push_back(digest);
  }
  return missing;
}

absl::Status SourceCache::AddBlob(const std::string& domain, const Digest& digest,
                                  std::string content) {
  if (content.size() > limits_->max_source_bytes) {
    return LimitExceeded("max_source_bytes", limits_->max_source_bytes,
                         absl::StrCat("a blob has ", content.size(), " bytes"));
  }
  Domain& shown = domains_[domain];
  if (shown.blobs.size() >= kMaxShownPerDomain) shown.blobs.clear();
  shown.blobs.insert(digest);
  if (auto known = blobs_.find(digest); known != blobs_.end()) {
    blob_use_.splice(blob_use_.begin(), blob_use_, known->second.use);
    return absl::OkStatus();
  }
  bytes_ += content.size();
  blob_use_.push_front(digest);
  blobs_[digest] = {std::make_shared<const std::string>(std::move(content)), blob_use_.begin()};
  EvictBlobs();
  return absl::OkStatus();
}

absl::StatusOr<ProgramPtr> SourceCache::Commit(const std::string& domain,
                                               const v1::ProgramManifest& manifest) {
  auto missing = Missing(domain, manifest);
  if (!missing.ok()) return missing.status();
  if (!missing->empty()) {
    return MakeError(v1::NEED_SOURCE,
                     absl::StrCat(missing->size(), " of the program's blobs are missing, first ",
                                  AbslView(missing->front().hex())));
  }
  auto digest = ProgramDigest(manifest);
  if (!digest.ok()) return digest.status();
  auto digests = BlobsOf(manifest);
  auto program = std::make_shared<Program>();
  program->digest = *digest;
  program->manifest = manifest;
  uint64_t total = 0;
  for (size_t i = 0; i < digests->size(); ++i) {
    const Blob& blob = blobs_.at((*digests)[i]);
    blob_use_.splice(blob_use_.begin(), blob_use_, blob.use);
    total += blob.content->size();
    if (i == 0) {
      program->source = blob.content;
    } else {
      program->headers.push_back(blob.content);
    }
  }
  if (program->source->size() != manifest.source_bytes()) {
    return BadRequest(absl::StrCat("manifest.source_bytes is ", manifest.source_bytes(),
                                   "; the source has ", program->source->size()));
  }
  if (total > limits_->max_source_bytes) {
    return LimitExceeded("max_source_bytes", limits_->max_source_bytes,
                         absl::StrCat("source and headers have ", total, " bytes"));
  }
  Domain& shown = domains_[domain];
  if (shown.programs.size() >= kMaxShownPerDomain) shown.programs.clear();
  shown.programs[*digest] = {.submitted = IsSubmitted(manifest.language())};
  if (auto known = programs_.find(*digest); known != programs_.end()) {
    program_use_.erase(known->second.use);
    programs_.erase(known);
  }
  program_use_.push_front(*digest);
  programs_[*digest] = {program, program_use_.begin()};
  if (programs_.size() > kMaxPrograms) {
    programs_.erase(program_use_.back());
    program_use_.pop_back();
  }
  return ProgramPtr(std::move(program));
}

const SourceCache::ShownProgram* SourceCache::Shown(const std::string& domain,
                                                    const Digest& program) const {
  auto shown = domains_.find(domain);
  if (shown == domains_.end()) return nullptr;
  auto found = shown->second.programs.find(program);
  return found == shown->second.programs.end() ? nullptr : &found->second;
}

ProgramPtr SourceCache::Find(const Digest& program) {
  auto known = programs_.find(program);
  if (known == programs_.end()) return nullptr;
  program_use_.splice(program_use_.begin(), program_use_, known->second.use);
  return known->second.program;
}

ProgramPtr SourceCache::Nearest(const v1::ProgramManifest& manifest) const {
  ProgramPtr nearest;
  int best = 0;
  for (const auto& [digest, known] : programs_) {
    const v1::ProgramManifest& other = known.program->manifest;
    if (other.language() != manifest.language()) continue;
    int common = 0;
    // The same source under other flags is nearer than another source under the same flags.
    if (other.source_digest() == manifest.source_digest()) common += 1000;
    for (const v1::HeaderRef& header : other.headers()) {
      for (const v1::HeaderRef& mine : manifest.headers()) {
        common += header.name() == mine.name() ? 1 + (header.digest() == mine.digest()) : 0;
      }
    }
    for (const v1::Define& define : other.defines()) {
      for (const v1::Define& mine : manifest.defines()) {
        common += define.name() == mine.name() ? 1 + (define.value() == mine.value()) : 0;
      }
    }
    for (const std::string& flag : other.flags()) {
      for (const std::string& mine : manifest.flags()) common += flag == mine;
    }
    if (common > best) {
      best = common;
      nearest = known.program;
    }
  }
  return nearest;
}

void SourceCache::EvictBlobs() {
  while (bytes_ > limits_->max_source_cache_bytes && blob_use_.size() > 1) {
    auto victim = blobs_.find(blob_use_.back());
    bytes_ -= victim->second.content->size();
    blobs_.erase(victim);
    blob_use_.pop_back();
  }
  // A program without its content would keep it alive, outside the bound.
  for (auto it = programs_.begin(); it != programs_.end();) {
    const bool whole = blobs_.contains(*Digest::FromBytes(it->second.program->manifest.source_digest()));
    if (whole) {
      ++it;
      continue;
    }
    program_use_.erase(it->second.use);
    programs_.erase(it++);
  }
}

}  // namespace kcache::core
