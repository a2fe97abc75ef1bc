#include "client/src/uploader.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"

namespace kcache::internal {
namespace {

// The blob of this digest; null: the program has none such.
const std::string* FindBlob(const ProgramState& program, const std::string& digest) {
  if (program.manifest.source_digest() == digest) return &program.source;
  for (int i = 0; i < program.manifest.headers_size(); ++i) {
    if (program.manifest.headers(i).digest() == digest) {
      return &program.headers[static_cast<size_t>(i)].second;
    }
  }
  return nullptr;
}

}  // namespace

void Uploader::Upload(std::shared_ptr<const ProgramState> program,
                      const Session::Credentials& credentials) {
  if (!running_.insert(program->digest).second) return;
  v1::MissingRequest request;
  request.mutable_credentials()->set_instance(credentials.instance);
  request.mutable_credentials()->set_session_id(credentials.session_id);
  request.mutable_credentials()->set_session_key(credentials.session_key);
  *request.mutable_manifest() = program->manifest;
  v1::BlobCredentials for_upload = request.credentials();
  runtime_->transport->Missing(
      std::move(request), [self = shared_from_this(), program = std::move(program),
                           for_upload](absl::StatusOr<v1::MissingReply> reply) {
        self->runtime_->executor->Run([self, program, for_upload, reply = std::move(reply)] {
          self->OnMissing(program, for_upload, reply);
        });
      });
}

void Uploader::OnMissing(std::shared_ptr<const ProgramState> program,
                         v1::BlobCredentials credentials, absl::StatusOr<v1::MissingReply> reply) {
  if (!reply.ok()) return Done(program->digest, reply.status());
  std::vector<BlobPart> blobs;
  for (const std::string& digest : reply->digests()) {
    const std::string* blob = FindBlob(*program, digest);
    if (blob == nullptr) {
      return Done(program->digest,
                  MakeError(v1::INTERNAL, "the daemon asks for a blob that the program has not"));
    }
    blobs.push_back({digest, blob});
  }
  uploads_.fetch_add(1, std::memory_order_relaxed);
  v1::UploadRequest first;
  *first.mutable_credentials() = std::move(credentials);
  *first.mutable_manifest() = program->manifest;
  runtime_->transport->Upload(
      std::move(first), std::move(blobs),
      [self = shared_from_this(), program](absl::StatusOr<v1::UploadReply> uploaded) {
        self->runtime_->executor->Run(
            [self, program, status = uploaded.status()] { self->Done(program->digest, status); });
      });
}

void Uploader::Done(const Digest& program, const absl::Status& status) {
  running_.erase(program);
  if (!status.ok()) {
    failed_(program,
            Annotate(status, absl::StrCat("while uploading program ", program.short_hex())));
  }
}

}  // namespace kcache::internal
