#include "daemon/rpc/blobs_service.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/grpc_status.h"
#include "contract/kernel_key.h"

namespace kcache::rpc {
namespace {

constexpr size_t kChunkBytes = 1u << 20;

// One upload: blobs, each announced by its digest, then the commit.
class UploadReactor : public grpc::ServerReadReactor<v1::UploadRequest> {
 public:
  UploadReactor(core::Service* service, core::Executor* executor, absl::StatusOr<core::Peer> peer,
                uint64_t max_source_bytes, v1::UploadReply* reply)
      : service_(service),
        executor_(executor),
        peer_(std::move(peer)),
        max_source_bytes_(max_source_bytes),
        reply_(reply) {
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      Finish(ToGrpc(MakeError(v1::BAD_REQUEST, "the upload ended without a commit")));
      return;
    }
    if (absl::Status taken = Take(); !taken.ok()) {
      Finish(ToGrpc(taken));
      return;
    }
    // What is whole goes into the core, in order; then the next message is read.
    executor_->Run([this] {
      absl::Status status;
      if (finished_blob_) {
        status = service_->AddBlob(*peer_, credentials_, finished_blob_->first,
                                   std::move(finished_blob_->second));
        finished_blob_.reset();
      }
      if (status.ok() && !request_.commit()) {
        service_->UploadProgress(credentials_, program_);
        StartRead(&request_);
        return;
      }
      if (status.ok()) {
        auto committed = service_->CommitProgram(*peer_, credentials_, manifest_);
        status = committed.status();
        if (committed.ok()) *reply_ = *std::move(committed);
      }
      Finish(ToGrpc(status));
    });
  }

  void OnDone() override { delete this; }

 private:
  absl::Status Take() {
    if (!peer_.ok()) return peer_.status();
    if (request_.has_credentials()) credentials_ = request_.credentials();
    if (request_.has_manifest()) {
      manifest_ = request_.manifest();
      auto program = ProgramDigest(manifest_);
      if (!program.ok()) return program.status();
      program_ = *program;
    }
    if (credentials_.session_id() == 0 || program_.empty()) {
      return MakeError(v1::BAD_REQUEST, "the first message of an upload must carry credentials and "
                                        "manifest");
    }
    if (!request_.digest().empty() || request_.commit()) {
      if (absl::Status closed = CloseBlob(); !closed.ok()) return closed;
    }
    if (!request_.digest().empty()) {
      auto digest = Digest::FromBytes(request_.digest());
      if (!digest.ok()) return digest.status();
      blob_ = *digest;
    }
    if (request_.data().empty()) return absl::OkStatus();
    if (!blob_) return MakeError(v1::BAD_REQUEST, "data before a digest");
    if (content_.size() + request_.data().size() > max_source_bytes_) {
      return MakeError(v1::LIMIT_EXCEEDED,
                       absl::StrCat("blob ", blob_->short_hex(), " has more than ",
                                    max_source_bytes_, " bytes, the limit max_source_bytes"),
                       {{"limit", "max_source_bytes"}});
    }
    content_.append(request_.data());
    return absl::OkStatus();
  }

  absl::Status CloseBlob() {
    if (!blob_) return absl::OkStatus();
    if (Digest::Of(content_) != *blob_) {
      return MakeError(v1::DIGEST_MISMATCH,
                       absl::StrCat("what was uploaded as ", blob_->short_hex(), " is ",
                                    Digest::Of(content_).short_hex()));
    }
    finished_blob_.emplace(*blob_, std::move(content_));
    content_.clear();
    blob_.reset();
    return absl::OkStatus();
  }

  core::Service* const service_;
  core::Executor* const executor_;
  const absl::StatusOr<core::Peer> peer_;
  const uint64_t max_source_bytes_;
  v1::UploadReply* const reply_;
  v1::UploadRequest request_;
  v1::BlobCredentials credentials_;
  v1::ProgramManifest manifest_;
  Digest program_;
  std::optional<Digest> blob_;
  std::string content_;
  std::optional<std::pair<Digest, std::string>> finished_blob_;
};

class FetchReactor : public grpc::ServerWriteReactor<v1::FetchReply> {
 public:
  FetchReactor(core::Service* service, core::Executor* executor, absl::StatusOr<core::Peer> peer,
               const v1::FetchRequest* request) {
    if (!peer.ok()) {
      Finish(ToGrpc(peer.status()));
      return;
    }
    executor->Run([this, service, peer = *peer, request] {
      auto artifact = service->Fetch(peer, *request);
      if (!artifact.ok()) {
        Finish(ToGrpc(artifact.status()));
        return;
      }
      artifact_ = *std::move(artifact);
      v1::ArtifactSummary* summary = reply_.mutable_artifact();
      summary->set_format(artifact_->artifact.format());
      summary->set_architecture(artifact_->artifact.architecture());
      summary->set_build_log(artifact_->artifact.build_log());
      *summary->mutable_kernels() = artifact_->artifact.kernels();
      summary->set_file(artifact_->file);
      StartWrite(&reply_);
    });
  }

  void OnWriteDone(bool ok) override {
    const std::string& binary = artifact_->artifact.binary();
    if (!ok || sent_ == binary.size()) {
      Finish(ok ? grpc::Status::OK : grpc::Status::CANCELLED);
      return;
    }
    reply_.Clear();
    const size_t size = std::min(kChunkBytes, binary.size() - sent_);
    reply_.set_data(binary.data() + sent_, size);
    sent_ += size;
    StartWrite(&reply_);
  }

  void OnDone() override { delete this; }

 private:
  core::ArtifactPtr artifact_;
  v1::FetchReply reply_;
  size_t sent_ = 0;
};

}  // namespace

grpc::ServerUnaryReactor* BlobsService::Missing(grpc::CallbackServerContext* context,
                                                const v1::MissingRequest* request,
                                                v1::MissingReply* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  auto peer = peers_->Find(context->peer());
  if (!peer.ok()) {
    reactor->Finish(ToGrpc(peer.status()));
    return reactor;
  }
  executor_->Run([this, peer = *peer, request, reply, reactor] {
    auto missing = service_->Missing(peer, *request);
    if (missing.ok()) *reply = *std::move(missing);
    reactor->Finish(ToGrpc(missing.status()));
  });
  return reactor;
}

grpc::ServerReadReactor<v1::UploadRequest>* BlobsService::Upload(
    grpc::CallbackServerContext* context, v1::UploadReply* reply) {
  return new UploadReactor(service_, executor_, peers_->Find(context->peer()), max_source_bytes_,
                           reply);
}

grpc::ServerWriteReactor<v1::FetchReply>* BlobsService::Fetch(grpc::CallbackServerContext* context,
                                                              const v1::FetchRequest* request) {
  return new FetchReactor(service_, executor_, peers_->Find(context->peer()), request);
}

}  // namespace kcache::rpc
