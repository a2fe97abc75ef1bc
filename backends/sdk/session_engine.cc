#include "backends/sdk/session_engine.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/sdk/launch_check.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend {
namespace {

constexpr size_t kReadChunk = 1u << 20;
constexpr size_t kMaxLabelBytes = 64;

absl::Status Revoked(uint32_t slot, uint32_t incarnation) {
  return MakeError(v1::LEASE_REVOKED, absl::StrCat("the lease on slot ", slot, " (incarnation ",
                                                   incarnation, ") was revoked"));
}

absl::Status SessionFenced() {
  return MakeError(v1::LEASE_REVOKED, "the context is being released; nothing more is admitted");
}

absl::Status Limit(std::string_view name, uint64_t value, std::string_view what) {
  return MakeError(v1::LIMIT_EXCEEDED,
                   absl::StrCat(std::string(what), "; the limit ", std::string(name), " is ", value),
                   {{"limit", std::string(name)}, {"value", std::to_string(value)}});
}

bool IsQueueCommand(const v1::Command& command) {
  switch (command.command_case()) {
    case v1::Command::kLaunch:
    case v1::Command::kWrite:
    case v1::Command::kRead:
    case v1::Command::kCopy:
    case v1::Command::kFill:
    case v1::Command::kCopyImage:
      return true;
    default:
      return false;
  }
}

}  // namespace

SessionEngine::SessionEngine(Host* host, uint64_t id, ExecutionPeer peer,
                             std::shared_ptr<ReplySink> sink)
    : host_(host), id_(id), peer_(peer), sink_(std::move(sink)) {}

SessionEngine::~SessionEngine() = default;

void SessionEngine::Handle(std::shared_ptr<v1::ExecutionRequest> request) {
  touched_.clear();
  {
    // One admission a message: a fence waits for what has begun and refuses what comes after.
    Admission context(host_->gate());
    Admission session(&gate_);
    if (context && session) {
      for (const v1::Command& command : request->commands()) HandleOne(request, command);
      for (QueueEngine* queue : touched_) queue->Flush();
    } else if (!host_->lost()) {  // else the end of the stream answers everything
      for (const v1::Command& command : request->commands()) {
        if (command.has_synchronize()) {
          auto queue = QueueFor(command.queue());
          absl::Status why = queue.ok() ? (*queue)->TakeFirstError() : queue.status();
          SendDone(command.synchronize().request_id(), why.ok() ? SessionFenced() : why);
        } else if (IsQueueCommand(command)) {
          auto queue = QueueFor(command.queue());
          if (queue.ok() && command.has_launch()) {
            RefuseLaunch(queue->get(), command.launch(), SessionFenced());
          } else if (queue.ok()) {
            Refuse(queue->get(), SessionFenced());
          }
          if (command.has_read()) SendReadFailed(command.read().request_id(), SessionFenced());
        } else if (command.has_create_buffer()) {
          SendDone(command.create_buffer().request_id(), SessionFenced());
        } else if (command.has_create_image()) {
          SendDone(command.create_image().request_id(), SessionFenced());
        } else if (command.has_scratch()) {
          SendDone(command.scratch().request_id(), SessionFenced());
        } else if (command.has_first_n()) {
          Answer(command.first_n().request_id(), SessionFenced());
        } else if (command.has_first_shape()) {
          Answer(command.first_shape().request_id(), SessionFenced());
        }
      }
    }
  }
  host_->NoteProgress();
}

void SessionEngine::HandleOne(const std::shared_ptr<v1::ExecutionRequest>& request,
                              const v1::Command& command) {
  if (IsQueueCommand(command) || command.has_synchronize()) {
    auto queue = QueueFor(command.queue());
    if (!queue.ok()) {
      if (command.has_synchronize()) {
        SendDone(command.synchronize().request_id(), queue.status());
      } else {
        v1::Reply reply;
        reply.mutable_queue_error()->mutable_position()->set_queue(command.queue());
        *reply.mutable_queue_error()->mutable_error() = ToProto(queue.status());
        sink_->Send(std::move(reply));
        // Somebody waits for its bytes.
        if (command.has_read()) SendReadFailed(command.read().request_id(), queue.status());
      }
      return;
    }
    QueueEngine* engine = queue->get();
    if (std::find(touched_.begin(), touched_.end(), engine) == touched_.end()) {
      touched_.push_back(engine);
    }
    switch (command.command_case()) {
      case v1::Command::kLaunch:
        return Launch(engine, command.launch());
      case v1::Command::kWrite:
        return Write(engine, request, command.write());
      case v1::Command::kRead:
        return Read(engine, command.read());
      case v1::Command::kCopy:
        return Copy(engine, command.copy());
      case v1::Command::kFill:
        return Fill(engine, command.fill());
      case v1::Command::kCopyImage:
        return CopyImage(engine, command.copy_image());
      default:
        return Synchronize(engine, command.synchronize());
    }
  }
  switch (command.command_case()) {
    case v1::Command::kCreateBuffer:
      return Create(command.create_buffer());
    case v1::Command::kCreateImage:
      return CreateImage(command.create_image());
    case v1::Command::kReleaseBuffer:
      return ReleaseMemory(command.release_buffer().buffer());
    case v1::Command::kBind:
      return Bind(command.bind());
    case v1::Command::kScratch:
      return Scratch(command.scratch());
    case v1::Command::kEndGroup:
      return EndGroup(command.end_group().group());
    case v1::Command::kFirstN:
      return Answer(command.first_n().request_id(),
                    host_->op_cache()->FirstN(command.first_n().key(), command.first_n().n()));
    case v1::Command::kFirstShape: {
      const v1::FirstShape& shape = command.first_shape();
      return Answer(shape.request_id(), host_->op_cache()->FirstShape(shape.name(), shape.m(),
                                                                      shape.n(), shape.k()));
    }
    default:
      return;  // Attach came first; anything else is of a newer client
  }
}

// ---- queues -------------------------------------------------------------------------------------

absl::StatusOr<std::shared_ptr<QueueEngine>> SessionEngine::QueueFor(uint32_t number) {
  {
    MutexLock lock(&mutex_);
    auto found = queues_.find(number);
    if (found != queues_.end()) return found->second;
  }
  const uint32_t most = host_->limits().max_queues_per_session();
  if (number >= most) {
    return MakeError(v1::UNKNOWN_QUEUE, absl::StrCat("queue ", number, "; the limit "
                                                     "max_queues_per_session is ", most));
  }
  auto on_error = [this, number](uint64_t sequence, const absl::Status& status) {
    if (host_->NoteIfLost(status)) return;
    v1::Reply reply;
    v1::QueueError* error = reply.mutable_queue_error();
    error->mutable_position()->set_queue(number);
    error->mutable_position()->set_sequence(sequence);
    *error->mutable_error() = ToProto(status);
    sink_->Send(std::move(reply));
  };
  // With a watchdog, progress is seen command by command.
  auto created =
      host_->watched()
          ? QueueEngine::Create(host_->context(), number, std::move(on_error), /*mark_every=*/1)
          : QueueEngine::Create(host_->context(), number, std::move(on_error));
  if (!created.ok()) return created.status();
  std::shared_ptr<QueueEngine> queue = *std::move(created);
  MutexLock lock(&mutex_);
  queues_[number] = queue;
  return queue;
}

std::vector<std::shared_ptr<QueueEngine>> SessionEngine::Queues() const {
  MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<QueueEngine>> queues;
  for (const auto& [number, queue] : queues_) queues.push_back(queue);
  return queues;
}

uint64_t SessionEngine::Admitted(uint32_t queue) const {
  MutexLock lock(&mutex_);
  auto found = queues_.find(queue);
  return found == queues_.end() ? 0 : found->second->admitted();
}

v1::SessionPositions SessionEngine::Positions() const {
  v1::SessionPositions positions;
  positions.set_session_id(id_);
  for (const auto& queue : Queues()) {
    v1::QueuePosition* position = positions.add_positions();
    position->set_queue(queue->number());
    position->set_sequence(queue->admitted());
  }
  return positions;
}

uint64_t SessionEngine::buffers() const {
  MutexLock lock(&mutex_);
  return memory_.size();
}

v1::SessionUsage SessionEngine::Usage() const {
  v1::SessionUsage usage;
  usage.set_session_id(id_);
  MutexLock lock(&mutex_);
  usage.set_device_bytes(device_bytes_);
  usage.set_pinned_bytes(pinned_bytes_);
  usage.set_buffers(memory_.size());
  return usage;
}

uint64_t SessionEngine::in_flight() const {
  uint64_t total = 0;
  for (const auto& queue : Queues()) total += queue->admitted() - queue->completed();
  return total;
}

void SessionEngine::Refuse(QueueEngine* queue, const absl::Status& why, uint64_t count) {
  host_->CountRefused(count);
  queue->Refuse(why, count);
}

void SessionEngine::RefuseLaunch(QueueEngine* queue, const v1::Launch& launch,
                                 const absl::Status& why) {
  const uint64_t count = std::max(1u, launch.repeat());
  Refuse(queue, why, count);
  if (const History* history = host_->history()) {
    history->Record("refused", {{"session", id_},
                                {"queue", queue->number()},
                                {"sequence", queue->admitted()},
                                {"slot", launch.slot()},
                                {"incarnation", launch.incarnation()},
                                {"reason", static_cast<uint64_t>(ReasonOf(why))}});
  }
}

absl::Status SessionEngine::CheckInFlight(const QueueEngine& queue, uint64_t count) const {
  const uint64_t most = host_->limits().max_commands_in_flight();
  if (most == 0 || queue.admitted() - queue.completed() + count <= most) return absl::OkStatus();
  return Limit("max_commands_in_flight", most,
               absl::StrCat(queue.admitted() - queue.completed(), " commands are in flight on queue ",
                            queue.number()));
}

// ---- memory -------------------------------------------------------------------------------------

absl::StatusOr<Ledger::Reservation> SessionEngine::ReserveMemory(uint64_t id, uint64_t bytes,
                                                                 const std::string& label) const {
  if (id == 0) return MakeError(v1::BAD_REQUEST, "buffer id 0");
  if (bytes == 0) return MakeError(v1::BAD_REQUEST, absl::StrCat("buffer ", id, ": 0 bytes"));
  if (label.size() > kMaxLabelBytes) {
    return Limit("max_label_bytes", kMaxLabelBytes,
                 absl::StrCat("the label of buffer ", id, " has ", label.size(), " bytes"));
  }
  const v1::HostLimits& limits = host_->limits();
  const uint64_t largest = host_->context()->device().limits().max_allocation_bytes();
  if (largest != 0 && bytes > largest) {
    return MakeError(v1::OUT_OF_DEVICE_MEMORY,
                     absl::StrCat("buffer ", id, ": ", bytes,
                                  " bytes; the device allocates at most ", largest));
  }
  MutexLock lock(&mutex_);
  if (memory_.contains(id)) {
    return MakeError(v1::BAD_REQUEST, absl::StrCat("buffer ", id, " exists already"));
  }
  if (limits.max_buffers_per_session() != 0 && memory_.size() >= limits.max_buffers_per_session()) {
    return Limit("max_buffers_per_session", limits.max_buffers_per_session(),
                 absl::StrCat("this session has ", memory_.size(), " buffers"));
  }
  const uint64_t most = limits.max_device_bytes_per_session();
  if (most != 0 && (bytes > most || device_bytes_ > most - bytes)) {
    return Limit("max_device_bytes_per_session", most,
                 absl::StrCat("this session has ", device_bytes_, " bytes and asks for ", bytes));
  }
  return host_->ledger()->Reserve(bytes);
}

absl::StatusOr<MemoryHandle> SessionEngine::AllocateWithFallback(uint64_t bytes,
                                                                 const std::string& group,
                                                                 bool* fell_back) {
  const bool latched = !group.empty() && fallen_groups_.contains(group);
  if (!latched) {
    auto memory = host_->context()->Allocate(bytes, MemoryKind::kDevice);
    if (memory.ok() || group.empty() ||
        ReasonOf(memory.status()) != v1::OUT_OF_DEVICE_MEMORY) {
      return memory;
    }
    fallen_groups_.insert(group);
    std::fprintf(stderr,
                 "session %llu: device memory is used up; group \"%s\" continues in host-visible "
                 "memory\n",
                 static_cast<unsigned long long>(id_), group.c_str());
  }
  const uint64_t most = host_->limits().max_pinned_bytes_per_session();
  {
    MutexLock lock(&mutex_);
    if (most != 0 && (bytes > most || pinned_bytes_ > most - bytes)) {
      return Limit("max_pinned_bytes_per_session", most,
                   absl::StrCat("this session has ", pinned_bytes_,
                                " bytes of host-visible memory and asks for ", bytes));
    }
  }
  *fell_back = true;
  return host_->context()->Allocate(bytes, MemoryKind::kHostVisible);
}

void SessionEngine::Create(const v1::CreateBuffer& create) {
  auto reserved = ReserveMemory(create.buffer(), create.bytes(), create.label());
  absl::Status status = reserved.status();
  bool fell_back = false;
  if (status.ok()) {
    auto handle = AllocateWithFallback(create.bytes(), create.group(), &fell_back);
    status = handle.status();
    if (handle.ok()) {
      Memory memory{.handle = *handle, .bytes = create.bytes(), .pinned = fell_back};
      memory.ledger = host_->ledger()->Add(
          absl::StrCat("buffer ", create.buffer(), create.label().empty() ? "" : " ",
                       create.label()),
          *std::move(reserved), id_,
          [context = host_->context(), h = *handle] { return context->Free(h); });
      MutexLock lock(&mutex_);
      memory_[create.buffer()] = memory;
      (fell_back ? pinned_bytes_ : device_bytes_) += create.bytes();
    }
  }
  if (host_->NoteIfLost(status)) return;
  if (create.request_id() != 0 || !status.ok()) {
    SendDone(create.request_id(),
             status.ok() ? status
                         : Annotate(status, absl::StrCat("while creating buffer ", create.buffer())),
             nullptr, fell_back);
  }
}

void SessionEngine::CreateImage(const v1::CreateImage& create) {
  const v1::ImageDescription& shape = create.description();
  // Four channels of at most four bytes: an upper bound is what quotas need.
  const uint64_t bytes = uint64_t{std::max(1u, shape.width())} * std::max(1u, shape.height()) *
                         std::max(1u, shape.depth()) * std::max(1u, shape.layers()) * 16;
  auto reserved = ReserveMemory(create.image(), bytes, create.label());
  absl::Status status = reserved.status();
  if (status.ok()) {
    auto handle = host_->context()->CreateImage(shape);
    status = handle.status();
    if (handle.ok()) {
      Memory memory{.handle = *handle, .bytes = bytes, .image = true};
      memory.ledger = host_->ledger()->Add(
          absl::StrCat("image ", create.image(), create.label().empty() ? "" : " ", create.label()),
          *std::move(reserved), id_,
          [context = host_->context(), h = *handle] { return context->Free(h); });
      MutexLock lock(&mutex_);
      memory_[create.image()] = memory;
      device_bytes_ += bytes;
    }
  }
  if (host_->NoteIfLost(status)) return;
  if (create.request_id() != 0 || !status.ok()) SendDone(create.request_id(), status);
}

void SessionEngine::ReleaseMemory(uint64_t id) {
  Memory memory;
  {
    MutexLock lock(&mutex_);
    auto found = memory_.find(id);
    if (found == memory_.end()) return;  // a second release is a no-op
    memory = found->second;
    memory_.erase(found);
    if (memory.scratch_tag.empty()) {
      (memory.pinned ? pinned_bytes_ : device_bytes_) -= memory.bytes;
    }
  }
  if (!memory.scratch_tag.empty()) return;  // the tag's, not the session's
  AfterInFlight([ledger = host_->ledger(), id = memory.ledger] {
    ledger->ReleaseOne(id).IgnoreError();
  });
}

// Calls `then` when what this session has in flight now is done.
void SessionEngine::AfterInFlight(std::function<void()> then) {
  std::vector<std::shared_ptr<QueueEngine>> busy;
  for (auto& queue : Queues()) {
    if (queue->admitted() != queue->completed()) busy.push_back(queue);
  }
  if (busy.empty()) return then();
  auto left = std::make_shared<std::atomic<size_t>>(busy.size());
  auto shared = std::make_shared<std::function<void()>>(std::move(then));
  for (auto& queue : busy) {
    queue->Await([left, shared](const absl::Status&) {
      if (left->fetch_sub(1) == 1) (*shared)();
    });
  }
}

void SessionEngine::Scratch(const v1::AcquireScratch& scratch) {
  absl::Status status;
  if (scratch.buffer() == 0 || scratch.tag().empty()) {
    status = MakeError(v1::BAD_REQUEST, "scratch needs a buffer id and a tag");
  } else {
    auto block = host_->op_cache()->Scratch(scratch.tag(), scratch.bytes());
    status = block.status();
    if (block.ok()) {
      MutexLock lock(&mutex_);
      memory_[scratch.buffer()] = {.handle = block->memory,
                                   .bytes = block->bytes,
                                   .scratch_tag = scratch.tag()};
    }
  }
  if (host_->NoteIfLost(status)) return;
  SendDone(scratch.request_id(), status);
}

void SessionEngine::EndGroup(const std::string& group) { fallen_groups_.erase(group); }

// A number that means nothing here may be another session's. Mistakes of honest programs look the
// same, so that only so many of a session are worth a line each.
void SessionEngine::ReportUnknownMemory() const {
  constexpr uint32_t kMostReported = 64;
  if (unknown_memory_.fetch_add(1, std::memory_order_relaxed) >= kMostReported) return;
  host_->Security(id_, peer_, "a buffer that this session does not have");
}

absl::StatusOr<SessionEngine::Memory> SessionEngine::FindMemory(uint64_t id) const {
  Memory memory;
  bool known = false;
  {
    MutexLock lock(&mutex_);
    auto found = memory_.find(id);
    known = found != memory_.end();
    if (known) memory = found->second;
  }
  if (!known) {
    ReportUnknownMemory();
    return MakeError(v1::UNKNOWN_BUFFER,
                     absl::StrCat("buffer ", id, " was never created here, or is released"));
  }
  if (!memory.scratch_tag.empty()) {
    const ScratchBlock now = host_->op_cache()->Current(memory.scratch_tag);
    memory.handle = now.memory;
    memory.bytes = now.bytes;
  }
  return memory;
}

absl::StatusOr<SessionEngine::Memory> SessionEngine::FindBuffer(uint64_t id) const {
  auto memory = FindMemory(id);
  if (memory.ok() && memory->image) {
    return MakeError(v1::UNKNOWN_BUFFER, absl::StrCat(id, " is an image, not a buffer"));
  }
  return memory;
}

absl::Status SessionEngine::CheckRange(const Memory& memory, uint64_t id, uint64_t offset,
                                       uint64_t bytes) const {
  if (offset <= memory.bytes && bytes <= memory.bytes - offset) return absl::OkStatus();
  return MakeError(v1::BUFFER_OUT_OF_RANGE,
                   absl::StrCat("bytes ", offset, " to ", offset, " + ", bytes, " of buffer ", id,
                                ", which has ", memory.bytes));
}

// ---- leases and launches ------------------------------------------------------------------------

void SessionEngine::Bind(const v1::BindLease& bind) {
  const v1::LeaseRef& lease = bind.lease();
  const LeaseIdentity identity{.session = {.context_id = host_->ref().context_id(),
                                           .generation = host_->ref().generation(),
                                           .session_id = id_},
                               .slot = lease.slot(),
                               .incarnation = lease.incarnation()};
  constexpr uint32_t kMaxSlot = 1u << 20;
  if (lease.slot() >= kMaxSlot || !host_->authority().VerifyLease(identity, lease.mac())) {
    host_->Security(id_, peer_, "forged lease");
    v1::Reply reply;
    *reply.mutable_queue_error()->mutable_error() = ToProto(
        MakeError(v1::LEASE_FOREIGN, absl::StrCat("the lease on slot ", lease.slot(),
                                                  " is not this session's")));
    sink_->Send(std::move(reply));
    return;
  }
  if (bound_.size() <= lease.slot()) bound_.resize(lease.slot() + 1);
  bound_[lease.slot()] = {lease.incarnation(),
                          host_->slots()->Find(lease.slot(), lease.incarnation())};
}

absl::StatusOr<std::shared_ptr<Slot>> SessionEngine::LeasedSlot(uint32_t slot,
                                                                uint32_t incarnation) const {
  if (slot >= bound_.size() || bound_[slot].incarnation == 0) {
    return MakeError(v1::LEASE_UNKNOWN,
                     absl::StrCat("this session has no lease on slot ", slot));
  }
  const BoundLease& lease = bound_[slot];
  if (lease.incarnation != incarnation || lease.slot == nullptr) return Revoked(slot, incarnation);
  return lease.slot;
}

absl::Status SessionEngine::CheckLaunch(const v1::Launch& launch, Slot* slot,
                                        LaunchCommand* command,
                                        absl::InlinedVector<KernelArgument, 16>* arguments) {
  absl::Status status =
      CheckShape(launch, slot->info, host_->context()->device().limits(), command);
  if (!status.ok()) return status;
  if (status = CheckArguments(launch, slot->info); !status.ok()) return status;
  arguments->clear();
  for (int i = 0; i < launch.arguments_size(); ++i) {
    const v1::Argument& given = launch.arguments(i);
    KernelArgument& argument = arguments->emplace_back();
    switch (given.value_case()) {
      case v1::Argument::kScalar:
        argument.kind = KernelArgument::Kind::kScalar;
        argument.scalar = given.scalar();
        break;
      case v1::Argument::kLocalBytes:
        argument.kind = KernelArgument::Kind::kLocalMemory;
        argument.bytes = given.local_bytes();
        break;
      case v1::Argument::kSampler:
        argument.kind = KernelArgument::Kind::kSampler;
        argument.sampler = &given.sampler();
        break;
      case v1::Argument::kImage: {
        auto image = FindMemory(given.image());
        if (image.ok() && !image->image) {
          return MakeError(v1::INVALID_ARGUMENTS,
                           absl::StrCat("argument ", i, ": ", given.image(), " is no image"));
        }
        if (!image.ok()) return Annotate(image.status(), absl::StrCat("argument ", i));
        argument.kind = KernelArgument::Kind::kImage;
        argument.memory = image->handle;
        argument.bytes = image->bytes;
        break;
      }
      case v1::Argument::kBuffer:
      case v1::Argument::kRange: {
        const uint64_t id = given.has_range() ? given.range().buffer() : given.buffer();
        auto buffer = FindBuffer(id);
        if (!buffer.ok()) return Annotate(buffer.status(), absl::StrCat("argument ", i));
        argument.kind = KernelArgument::Kind::kBuffer;
        argument.memory = buffer->handle;
        argument.bytes = buffer->bytes;
        if (given.has_range()) {
          const uint64_t offset = given.range().offset();
          status = CheckRange(*buffer, id, offset, given.range().bytes());
          if (!status.ok()) return Annotate(status, absl::StrCat("argument ", i));
          argument.offset = offset;
          argument.bytes =
              given.range().bytes() != 0 ? given.range().bytes() : buffer->bytes - offset;
        }
        break;
      }
      case v1::Argument::VALUE_NOT_SET:
        return MakeError(v1::INVALID_ARGUMENTS, absl::StrCat("argument ", i, " is not set"));
    }
  }
  command->kernel = slot->kernel;
  command->arguments = {arguments->data(), arguments->size()};
  return absl::OkStatus();
}

void SessionEngine::Launch(QueueEngine* queue, const v1::Launch& launch) {
  const uint64_t count = std::max(1u, launch.repeat());
  auto slot = LeasedSlot(launch.slot(), launch.incarnation());
  if (!slot.ok()) return RefuseLaunch(queue, launch, slot.status());
  // From here until the driver has it, a fence of the slot waits for this launch.
  Admission admitted(&(*slot)->gate);
  if (!admitted) return RefuseLaunch(queue, launch, Revoked(launch.slot(), launch.incarnation()));
  LaunchCommand command;
  absl::Status status = CheckInFlight(*queue, count);
  if (status.ok()) status = CheckLaunch(launch, slot->get(), &command, &arguments_);
  if (!status.ok()) return RefuseLaunch(queue, launch, status);
  host_->CountLaunches(count);
  queue
      ->SubmitLaunch(launch.slot(), count,
                     [&](QueueHandle handle) { return host_->context()->Launch(handle, command); })
      .IgnoreError();  // noted by the queue
  if (const History* history = host_->history()) {
    history->Record("admitted", {{"session", id_},
                                 {"queue", queue->number()},
                                 {"sequence", queue->admitted()},
                                 {"slot", launch.slot()},
                                 {"incarnation", launch.incarnation()},
                                 {"kernel", (*slot)->kernel}});
  }
}

// ---- data ---------------------------------------------------------------------------------------

void SessionEngine::Write(QueueEngine* queue, const std::shared_ptr<v1::ExecutionRequest>& keep,
                          const v1::WriteBuffer& write) {
  auto buffer = FindBuffer(write.buffer());
  absl::Status status = buffer.status();
  if (status.ok()) status = CheckInFlight(*queue, 1);
  if (status.ok()) status = CheckRange(*buffer, write.buffer(), write.offset(), write.data().size());
  if (!status.ok()) return Refuse(queue, status);
  status = queue->Submit(1, [&](QueueHandle handle) {
    return host_->context()->Write(handle, buffer->handle, write.offset(), write.data());
  });
  // The message's bytes stay until the driver is done with them.
  queue->Await([keep](const absl::Status&) {});
}

void SessionEngine::Read(QueueEngine* queue, const v1::ReadBuffer& read) {
  auto fail = [this, id = read.request_id()](const absl::Status& why) { SendReadFailed(id, why); };
  auto buffer = FindBuffer(read.buffer());
  absl::Status status = buffer.status();
  if (status.ok()) status = CheckInFlight(*queue, 1);
  if (status.ok()) status = CheckRange(*buffer, read.buffer(), read.offset(), read.bytes());
  if (!status.ok()) {
    Refuse(queue, status);
    return fail(status);
  }
  auto data = std::make_shared<std::string>(read.bytes(), '\0');
  status = queue->Submit(1, [&](QueueHandle handle) {
    if (data->empty()) return absl::OkStatus();
    return host_->context()->Read(handle, buffer->handle, read.offset(),
                                  std::span<char>(data->data(), data->size()));
  });
  if (!status.ok()) return fail(status);
  queue->Await([self = shared_from_this(), data, fail, id = read.request_id()](
                   const absl::Status& done) {
    if (self->host_->NoteIfLost(done)) return;
    if (!done.ok()) return fail(done);
    size_t offset = 0;
    do {
      const size_t size = std::min(kReadChunk, data->size() - offset);
      v1::Reply reply;
      v1::ReadData* chunk = reply.mutable_read_data();
      chunk->set_request_id(id);
      chunk->set_offset(offset);
      if (size == data->size()) {
        chunk->set_data(std::move(*data));
        chunk->set_last(true);
        self->sink_->Send(std::move(reply));
        return;
      }
      chunk->set_data(data->data() + offset, size);
      offset += size;
      chunk->set_last(offset == data->size());
      self->sink_->Send(std::move(reply));
    } while (offset < data->size());
  });
}

void SessionEngine::Copy(QueueEngine* queue, const v1::CopyBuffer& copy) {
  auto source = FindBuffer(copy.source()), destination = FindBuffer(copy.destination());
  absl::Status status = source.ok() ? destination.status() : source.status();
  if (status.ok()) status = CheckInFlight(*queue, 1);
  if (status.ok()) status = CheckRange(*source, copy.source(), copy.source_offset(), copy.bytes());
  if (status.ok()) {
    status = CheckRange(*destination, copy.destination(), copy.destination_offset(), copy.bytes());
  }
  if (status.ok() && copy.source() == copy.destination()) {
    const uint64_t low = std::min(copy.source_offset(), copy.destination_offset());
    const uint64_t high = std::max(copy.source_offset(), copy.destination_offset());
    if (copy.bytes() > high - low) {
      status = MakeError(v1::BAD_REQUEST, absl::StrCat("a copy of ", copy.bytes(),
                                                       " bytes within buffer ", copy.source(),
                                                       " overlaps itself"));
    }
  }
  if (!status.ok()) return Refuse(queue, status);
  queue
      ->Submit(1,
               [&](QueueHandle handle) {
                 if (copy.bytes() == 0) return absl::OkStatus();
                 return host_->context()->Copy(handle, source->handle, copy.source_offset(),
                                               destination->handle, copy.destination_offset(),
                                               copy.bytes());
               })
      .IgnoreError();
}

void SessionEngine::Fill(QueueEngine* queue, const v1::FillBuffer& fill) {
  auto buffer = FindBuffer(fill.buffer());
  absl::Status status = buffer.status();
  const size_t size = fill.pattern().size();
  if (status.ok() && size != 1 && size != 2 && size != 4 && size != 8 && size != 16) {
    status = MakeError(v1::BAD_REQUEST,
                       absl::StrCat("a pattern of ", size, " bytes; it has 1, 2, 4, 8 or 16"));
  }
  if (status.ok() && fill.bytes() % size != 0) {
    status = MakeError(v1::BAD_REQUEST, absl::StrCat("a fill of ", fill.bytes(),
                                                     " bytes is no multiple of its pattern's ",
                                                     size));
  }
  if (status.ok()) status = CheckInFlight(*queue, 1);
  if (status.ok()) status = CheckRange(*buffer, fill.buffer(), fill.offset(), fill.bytes());
  if (!status.ok()) return Refuse(queue, status);
  queue
      ->Submit(1,
               [&](QueueHandle handle) {
                 if (fill.bytes() == 0) return absl::OkStatus();
                 return host_->context()->Fill(handle, buffer->handle, fill.offset(), fill.bytes(),
                                               fill.pattern());
               })
      .IgnoreError();
}

void SessionEngine::CopyImage(QueueEngine* queue, const v1::CopyImage& copy) {
  auto image = FindMemory(copy.image());
  auto buffer = FindBuffer(copy.buffer());
  absl::Status status = image.ok() ? buffer.status() : image.status();
  if (status.ok() && !image->image) {
    status = MakeError(v1::BAD_REQUEST, absl::StrCat(copy.image(), " is no image"));
  }
  if (status.ok()) status = CheckInFlight(*queue, 1);
  if (status.ok()) status = CheckRange(*buffer, copy.buffer(), copy.buffer_offset(), 0);
  if (!status.ok()) return Refuse(queue, status);
  ImageRegion region;
  region.origin = {copy.origin().x(), copy.origin().y(), copy.origin().z()};
  region.size = {copy.region().x(), std::max(1u, copy.region().y()),
                 std::max(1u, copy.region().z())};
  queue
      ->Submit(1,
               [&](QueueHandle handle) {
                 return copy.to_buffer()
                            ? host_->context()->CopyImageToBuffer(handle, image->handle, region,
                                                                  buffer->handle,
                                                                  copy.buffer_offset())
                            : host_->context()->CopyBufferToImage(handle, buffer->handle,
                                                                  copy.buffer_offset(),
                                                                  image->handle, region);
               })
      .IgnoreError();
}

void SessionEngine::Synchronize(QueueEngine* queue, const v1::Synchronize& synchronize) {
  const uint64_t id = synchronize.request_id();
  auto self = shared_from_this();
  if (!synchronize.all_queues()) {
    queue->Await([self, queue, id](const absl::Status& done) {
      if (self->host_->NoteIfLost(done)) return;
      self->SendDone(id, queue->TakeFirstError(), queue);
    });
    queue->Flush();
    return;
  }
  auto queues = Queues();
  struct Join {
    std::atomic<size_t> left;
    Mutex mutex;
    absl::Status first;
  };
  auto join = std::make_shared<Join>();
  join->left = queues.size();
  for (auto& one : queues) {
    one->Await([self, one = one.get(), id, join](const absl::Status& done) {
      if (self->host_->NoteIfLost(done)) return;
      absl::Status error = one->TakeFirstError();
      absl::Status first;
      {
        MutexLock lock(&join->mutex);
        if (join->first.ok()) join->first = error;
        first = join->first;
      }
      if (join->left.fetch_sub(1) == 1) self->SendDone(id, first, nullptr);
    });
    one->Flush();
  }
}

// ---- answers ------------------------------------------------------------------------------------

void SessionEngine::SendDone(uint64_t request_id, const absl::Status& status,
                             const QueueEngine* queue, bool fell_back) {
  v1::Reply reply;
  v1::Done* done = reply.mutable_done();
  done->set_request_id(request_id);
  if (!status.ok()) *done->mutable_error() = ToProto(status);
  if (queue != nullptr) {
    done->mutable_position()->set_queue(queue->number());
    done->mutable_position()->set_sequence(queue->completed());
  }
  done->set_fell_back(fell_back);
  sink_->Send(std::move(reply));
}

void SessionEngine::SendReadFailed(uint64_t request_id, const absl::Status& why) {
  v1::Reply reply;
  v1::ReadData* data = reply.mutable_read_data();
  data->set_request_id(request_id);
  data->set_last(true);
  *data->mutable_error() = ToProto(why);
  sink_->Send(std::move(reply));
}

void SessionEngine::Answer(uint64_t request_id, const absl::StatusOr<bool>& yes) {
  if (!yes.ok()) return SendDone(request_id, yes.status());
  v1::Reply reply;
  reply.mutable_answer()->set_request_id(request_id);
  reply.mutable_answer()->set_yes(*yes);
  sink_->Send(std::move(reply));
}

v1::EndSessionReply SessionEngine::Sweep(Deadline deadline) {
  v1::EndSessionReply reply;
  bool idle = true;
  for (auto& queue : Queues()) {
    if (queue->WaitIdle(deadline)) continue;
    idle = false;
    reply.add_failures(absl::StrCat("queue ", queue->number(), " of session ", id_,
                                    ": still busy; what it uses is released when it is done"));
  }
  absl::flat_hash_map<uint64_t, Memory> left;
  {
    MutexLock lock(&mutex_);
    left.swap(memory_);
    device_bytes_ = pinned_bytes_ = 0;
  }
  std::vector<std::pair<LedgerId, uint64_t>> newest_first;
  for (const auto& [id, memory] : left) {
    if (!memory.scratch_tag.empty()) continue;
    newest_first.emplace_back(memory.ledger, memory.bytes);
  }
  std::sort(newest_first.rbegin(), newest_first.rend());
  for (const auto& [ledger, bytes] : newest_first) {
    reply.set_swept_buffers(reply.swept_buffers() + 1);
    reply.set_swept_bytes(reply.swept_bytes() + bytes);
    if (!idle) {
      AfterInFlight([host = host_, ledger = ledger] {
        host->ledger()->ReleaseOne(ledger).IgnoreError();
      });
      continue;
    }
    absl::Status released = host_->ledger()->ReleaseOne(ledger);
    if (!released.ok()) reply.add_failures(std::string(released.message()));
  }
  if (idle) {
    for (auto& queue : Queues()) {
      absl::Status closed = queue->Close();
      if (!closed.ok()) {
        reply.add_failures(absl::StrCat("queue ", queue->number(), ": ",
                                        std::string(closed.message())));
      }
    }
  }
  return reply;
}

}  // namespace kcache::backend
