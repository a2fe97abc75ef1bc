#include "backends/cudalike/rtc_program.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "backends/cudalike/relative_includes.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::cudalike {
namespace {

class Program {
 public:
  explicit Program(const RtcApi& api) : api_(api) {}
  ~Program() {
    if (handle_ != nullptr) api_.destroy_program(&handle_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  RtcHandle* out() { return &handle_; }
  RtcHandle get() const { return handle_; }

 private:
  const RtcApi& api_;
  RtcHandle handle_ = nullptr;
};

std::string LogOf(const RtcApi& api, RtcHandle program) {
  size_t bytes = 0;
  if (api.get_log_size(program, &bytes) != kRtcSuccess || bytes == 0) return "";
  std::string log(bytes, '\0');
  if (api.get_log(program, log.data()) != kRtcSuccess) return "";
  log.resize(std::string_view(log.c_str()).size());  // the size counts the terminator
  return log;
}

absl::Status Failure(const RtcApi& api, RtcResult result, std::string_view what,
                     std::string_view log) {
  v1::ErrorReason reason = v1::COMPILE_FAILED;
  if (result == kRtcOutOfMemory) reason = v1::COMPILE_OUT_OF_MEMORY;
  if (result == kRtcInvalidOption || result == kRtcInvalidInput ||
      result == kRtcNameExpressionNotValid) {
    reason = v1::BAD_REQUEST;
  }
  if (!log.empty()) return MakeError(reason, log);
  const char* text = api.get_error_string(result);
  return MakeError(
      reason, absl::StrCat(AbslView(what), ": ", text == nullptr ? "" : text, " (", result, ")"));
}

// The libraries take C strings: a NUL would silently cut off what follows.
absl::Status CheckNoNul(std::string_view what, std::string_view text) {
  const size_t position = text.find('\0');
  if (position == std::string_view::npos) return absl::OkStatus();
  return MakeError(v1::BAD_REQUEST, absl::StrCat(AbslView(what), " has a NUL at byte ", position));
}

}  // namespace

std::string LimitLog(std::string log, uint64_t limit) {
  if (limit == 0 || log.size() <= limit) return log;
  constexpr size_t kRoomForNote = 48;
  const size_t kept = limit > kRoomForNote ? limit - kRoomForNote : limit;
  const size_t cut = log.size() - kept;
  log.resize(kept);
  if (kept < limit) absl::StrAppend(&log, "\n[", cut, " more bytes of log]\n");
  return log;
}

absl::StatusOr<RtcResultFiles> CompileRtcProgram(const RtcApi& api, const RtcOutput& output,
                                                 const v1::CompileRequest& request,
                                                 const std::string& source_name,
                                                 const std::vector<std::string>& options) {
  if (absl::Status status = CheckNoNul("the source", request.source()); !status.ok()) return status;
  const std::vector<v1::HeaderFile> headers(request.headers().begin(), request.headers().end());
  const std::vector<v1::HeaderFile> resolved = ResolveRelativeIncludes(headers);
  std::vector<const char*> contents;
  std::vector<const char*> names;
  for (const v1::HeaderFile& header : resolved) {
    absl::Status status = CheckNoNul(absl::StrCat("the header ", header.name()), header.content());
    if (!status.ok()) return status;
    contents.push_back(header.content().c_str());
    names.push_back(header.name().c_str());
  }
  Program program(api);
  RtcResult result =
      api.create_program(program.out(), request.source().c_str(), source_name.c_str(),
                         static_cast<int>(names.size()), contents.data(), names.data());
  if (result != kRtcSuccess) return Failure(api, result, "while creating the program", "");
  for (const std::string& expression : request.manifest().name_expressions()) {
    result = api.add_name_expression(program.get(), expression.c_str());
    if (result != kRtcSuccess) {
      return Failure(api, result, absl::StrCat("name expression ", Quoted(expression)), "");
    }
  }
  std::vector<const char*> values;
  values.reserve(options.size());
  for (const std::string& option : options) values.push_back(option.c_str());
  result = api.compile_program(program.get(), static_cast<int>(values.size()), values.data());
  RtcResultFiles files;
  files.log = LimitLog(LogOf(api, program.get()), request.max_log_bytes());
  if (result != kRtcSuccess) return Failure(api, result, "while compiling", files.log);

  size_t bytes = 0;
  result = output.size(program.get(), &bytes);
  if (result != kRtcSuccess) return Failure(api, result, "while asking for the binary's size", "");
  if (request.max_output_bytes() != 0 && bytes > request.max_output_bytes()) {
    return MakeError(v1::LIMIT_EXCEEDED,
                     absl::StrCat("the binary has ", bytes, " bytes, max_output_bytes is ",
                                  request.max_output_bytes()),
                     {{"limit", "max_output_bytes"}});
  }
  files.binary.resize(bytes);
  result = output.get(program.get(), files.binary.data());
  if (result != kRtcSuccess) return Failure(api, result, "while fetching the binary", "");
  for (const std::string& expression : request.manifest().name_expressions()) {
    const char* lowered = nullptr;
    result = api.get_lowered_name(program.get(), expression.c_str(), &lowered);
    if (result != kRtcSuccess || lowered == nullptr) {
      return Failure(api, result, absl::StrCat("lowered name of ", Quoted(expression)), "");
    }
    files.lowered_names.emplace_back(expression, lowered);
  }
  return files;
}

std::vector<v1::KernelInfo> NameKernels(
    const std::vector<v1::KernelInfo>& kernels,
    const std::vector<std::pair<std::string, std::string>>& lowered_names) {
  std::vector<v1::KernelInfo> named;
  for (const v1::KernelInfo& kernel : kernels) {
    bool has_expression = false;
    for (const auto& [expression, lowered] : lowered_names) {
      if (lowered != kernel.lowered_name()) continue;
      named.push_back(kernel);
      named.back().set_entry(expression);
      has_expression = true;
    }
    if (has_expression) continue;
    named.push_back(kernel);
    named.back().set_entry(kernel.lowered_name());
  }
  return named;
}

}  // namespace kcache::backend::cudalike
