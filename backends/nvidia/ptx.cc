#include "backends/nvidia/ptx.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::nvidia {
namespace {

bool IsWord(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%' ||
         c == '.';
}

// Words (with dots: ".param", "sm_90a", "9.0") and single punctuation marks; comments and strings
// skipped.
class Tokens {
 public:
  explicit Tokens(std::string_view text) : text_(text) {}

  // Empty at the end.
  std::string_view Next() {
    SkipBlank();
    if (at_ >= text_.size()) return {};
    const size_t start = at_;
    if (text_[at_] == '"') {
      at_ = text_.find('"', at_ + 1);
      at_ = at_ == std::string_view::npos ? text_.size() : at_ + 1;
      return text_.substr(start, at_ - start);
    }
    if (!IsWord(text_[at_])) return text_.substr(at_++, 1);
    while (at_ < text_.size() && IsWord(text_[at_])) ++at_;
    return text_.substr(start, at_ - start);
  }

  std::string_view Peek() {
    const size_t start = at_;
    const std::string_view token = Next();
    at_ = start;
    return token;
  }

  size_t line() const {
    return static_cast<size_t>(std::count(
               text_.begin(),
               text_.begin() + static_cast<std::ptrdiff_t>(std::min(at_, text_.size())), '\n')) +
           1;
  }

 private:
  void SkipBlank() {
    while (at_ < text_.size()) {
      if (std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
        ++at_;
      } else if (text_.substr(at_, 2) == "//") {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (text_.substr(at_, 2) == "/*") {
        const size_t end = text_.find("*/", at_ + 2);
        at_ = end == std::string_view::npos ? text_.size() : end + 2;
      } else {
        return;
      }
    }
  }

  std::string_view text_;
  size_t at_ = 0;
};

absl::Status Malformed(const Tokens& tokens, std::string_view what) {
  return MakeError(v1::BAD_REQUEST, absl::StrCat("PTX line ", tokens.line(), ": ", AbslView(what)));
}

// Bytes of a fundamental type: ".u64" is 8. 0 when it is not one.
uint64_t TypeBytes(std::string_view type) {
  if (type.size() < 3 || type[0] != '.') return 0;
  if (std::string_view("usbf").find(type[1]) == std::string_view::npos) return 0;
  uint32_t bits = 0;
  if (!absl::SimpleAtoi(AbslView(type.substr(2)), &bits) || bits < 8 || bits % 8 != 0) return 0;
  return bits / 8;
}

std::optional<uint64_t> NextNumber(Tokens* tokens) {
  uint64_t value = 0;
  if (!absl::SimpleAtoi(AbslView(tokens->Next()), &value)) return std::nullopt;
  return value;
}

// After ".param": [.align N] .type [.ptr [.space] [.align N]] name [ '[' count ']' ]
absl::Status ReadParameter(Tokens* tokens, uint64_t* offset, v1::KernelInfo* kernel) {
  uint64_t alignment = 0;
  uint64_t bytes = 0;
  bool is_pointer = false;
  while (tokens->Peek().starts_with('.')) {
    const std::string_view word = tokens->Next();
    if (word == ".align") {
      const std::optional<uint64_t> value = NextNumber(tokens);
      if (!value) return Malformed(*tokens, ".align without a number");
      if (!is_pointer) alignment = *value;  // after .ptr it is the pointee's
    } else if (word == ".ptr") {
      is_pointer = true;
    } else if (const uint64_t size = TypeBytes(word)) {
      bytes = size;
    }
  }
  if (bytes == 0) return Malformed(*tokens, "a parameter without a type that is known");
  if (alignment == 0) alignment = bytes;
  tokens->Next();  // its name, made from the kernel's: "kernel_param_0"
  if (tokens->Peek() == "[") {
    tokens->Next();
    const std::optional<uint64_t> count = NextNumber(tokens);
    if (!count || tokens->Next() != "]") return Malformed(*tokens, "an array without its length");
    bytes *= *count;
  }
  *offset = (*offset + alignment - 1) / alignment * alignment;
  v1::ArgumentInfo* argument = kernel->add_arguments();
  argument->set_bytes(bytes);
  argument->set_offset(*offset);
  *offset += bytes;
  return absl::OkStatus();
}

void ReadDimensions(Tokens* tokens, uint32_t (&dimensions)[3]) {
  for (uint32_t& dimension : dimensions) {
    uint32_t value = 0;
    if (!absl::SimpleAtoi(AbslView(tokens->Peek()), &value)) return;
    tokens->Next();
    dimension = value;
    if (tokens->Peek() != ",") return;
    tokens->Next();
  }
}

// After ".entry".
absl::Status ReadEntry(Tokens* tokens, Ptx* ptx) {
  v1::KernelInfo kernel;
  kernel.set_lowered_name(std::string(tokens->Next()));
  uint64_t offset = 0;
  if (tokens->Peek() == "(") {
    tokens->Next();
    for (std::string_view token = tokens->Next(); token != ")"; token = tokens->Next()) {
      if (token.empty()) return Malformed(*tokens, "a parameter list without an end");
      if (token == ",") continue;
      if (token != ".param") return Malformed(*tokens, "a parameter that is not a .param");
      if (absl::Status status = ReadParameter(tokens, &offset, &kernel); !status.ok()) {
        return status;
      }
    }
  }
  for (std::string_view token = tokens->Next(); token != "{" && token != ";";
       token = tokens->Next()) {
    if (token.empty()) return Malformed(*tokens, "an entry without a body");
    uint32_t dimensions[3] = {1, 1, 1};
    if (token == ".maxntid") {
      ReadDimensions(tokens, dimensions);
      kernel.set_max_local_size(dimensions[0] * dimensions[1] * dimensions[2]);
    } else if (token == ".reqntid") {
      ReadDimensions(tokens, dimensions);
      kernel.mutable_required_local_size()->set_x(dimensions[0]);
      kernel.mutable_required_local_size()->set_y(dimensions[1]);
      kernel.mutable_required_local_size()->set_z(dimensions[2]);
    }
  }
  kernel.set_arguments_known(true);
  ptx->kernels.push_back(std::move(kernel));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Ptx> ReadPtx(std::string_view text) {
  text = text.substr(0, text.find('\0'));
  Tokens tokens(text);
  Ptx ptx;
  for (std::string_view token = tokens.Next(); !token.empty(); token = tokens.Next()) {
    if (token == ".version") ptx.version = std::string(tokens.Next());
    if (token == ".target") ptx.target = std::string(tokens.Next());
    if (token != ".entry") continue;
    if (absl::Status status = ReadEntry(&tokens, &ptx); !status.ok()) return status;
  }
  if (ptx.version.empty() || ptx.target.empty()) {
    return MakeError(v1::BAD_REQUEST, "PTX without its .version and .target directives");
  }
  std::sort(ptx.kernels.begin(), ptx.kernels.end(),
            [](const v1::KernelInfo& a, const v1::KernelInfo& b) {
              return a.lowered_name() < b.lowered_name();
            });
  return ptx;
}

}  // namespace kcache::backend::nvidia
