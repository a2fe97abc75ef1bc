#include "contract/device_name.h"

#include <charconv>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache {
namespace {

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

absl::Status Invalid(std::string_view what, std::string_view text, std::string_view why) {
  return MakeError(v1::BAD_REQUEST,
                   absl::StrCat(AbslView(what), " ", AbslView(Quoted(text)), ": ", AbslView(why)));
}

// Checks one word of the framework `whole`.
absl::Status ValidateWord(std::string_view word, std::string_view role, std::string_view whole) {
  const auto invalid = [&](std::string_view why) {
    return Invalid("framework", whole, absl::StrCat("its ", AbslView(role), " ", AbslView(why)));
  };
  if (word.empty()) return invalid("is empty");
  if (word.size() > DeviceName::kMaxWordBytes) {
    return invalid(
        absl::StrCat("has ", word.size(), " bytes, the limit is ", DeviceName::kMaxWordBytes));
  }
  if (!IsLetter(word.front())) return invalid("does not start with a letter");
  for (const char c : word) {
    if (!IsLetter(c) && !IsDigit(c) && c != '_' && c != '-' && c != '.') {
      return invalid(absl::StrCat("contains ", AbslView(Quoted(std::string_view(&c, 1))),
                                  "; letters, digits, '_', '-' and '.' are allowed"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckUtf8(std::string_view what, std::string_view text) {
  if (IsValidUtf8(text)) return absl::OkStatus();
  return MakeError(v1::INVALID_UTF8,
                   absl::StrCat(AbslView(what), " ", AbslView(Quoted(text)), " is not UTF-8"));
}

}  // namespace

absl::StatusOr<DeviceName> DeviceName::Parse(std::string_view text) {
  if (absl::Status status = CheckUtf8("device", text); !status.ok()) return status;
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return Invalid("device", text, "no ':' between framework and index, as in \"CUDA:0\"");
  }
  DeviceName device;
  device.framework = text.substr(0, colon);
  if (absl::Status status = ValidateFramework(device.framework); !status.ok()) {
    return Annotate(status, absl::StrCat("device ", AbslView(Quoted(text))));
  }
  const std::string_view digits = text.substr(colon + 1);
  if (digits.size() > 1 && digits.front() == '0') {
    return Invalid("device", text, "its index has a leading zero");
  }
  const char* const end = digits.data() + digits.size();
  const auto [parsed, error] = std::from_chars(digits.data(), end, device.index);
  if (error == std::errc::result_out_of_range) {
    return Invalid("device", text, "its index is beyond 4294967295");
  }
  if (error != std::errc() || parsed != end) {
    return Invalid("device", text, "its index is not a decimal number");
  }
  return device;
}

absl::StatusOr<DeviceName> DeviceName::FromProto(const v1::DeviceRef& device) {
  if (absl::Status status = ValidateFramework(device.framework()); !status.ok()) return status;
  return DeviceName{device.framework(), device.index()};
}

absl::Status DeviceName::ValidateFramework(std::string_view framework) {
  if (absl::Status status = CheckUtf8("framework", framework); !status.ok()) return status;
  const size_t slash = framework.find('/');
  absl::Status status = ValidateWord(framework.substr(0, slash), "family", framework);
  if (status.ok() && slash != std::string_view::npos) {
    status = ValidateWord(framework.substr(slash + 1), "variant", framework);
  }
  return status;
}

absl::Status DeviceName::ValidateFamily(std::string_view family) {
  if (absl::Status status = CheckUtf8("family", family); !status.ok()) return status;
  return ValidateWord(family, "family", family);
}

std::string DeviceName::ToString() const { return absl::StrCat(framework, ":", index); }

v1::DeviceRef DeviceName::ToProto() const {
  v1::DeviceRef device;
  device.set_framework(framework);
  device.set_index(index);
  return device;
}

std::string_view DeviceName::family() const {
  return std::string_view(framework).substr(0, framework.find('/'));
}

std::string_view DeviceName::variant() const {
  const size_t slash = framework.find('/');
  return slash == std::string::npos ? std::string_view()
                                    : std::string_view(framework).substr(slash + 1);
}

bool DeviceName::Matches(std::string_view event_family, uint32_t event_index) const {
  return index == event_index && family() == event_family;
}

bool DeviceName::InScope(std::string_view scope_family, std::optional<uint32_t> scope_index) const {
  return (scope_family.empty() || family() == scope_family) &&
         (!scope_index.has_value() || index == *scope_index);
}

}  // namespace kcache
