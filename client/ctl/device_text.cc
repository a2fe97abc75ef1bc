#include "client/ctl/device_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kcache::ctl {
namespace {

constexpr size_t kNameWidth = 14;

// Characters that would garble a terminal become '?', as in tables.
void Line(const std::string& name, const std::string& value, std::string* text) {
  if (value.empty()) return;
  absl::StrAppend(text, "  ", name, std::string(kNameWidth - name.size(), ' '));
  for (const char c : value) text->push_back(static_cast<unsigned char>(c) < ' ' ? '?' : c);
  text->push_back('\n');
}

}  // namespace

std::string DeviceDetails(const v1::DeviceInfo& info) {
  std::string text;
  Line("uuid", info.uuid(), &text);
  Line("pci", info.pci_address(), &text);
  Line("compiler", info.compiler_version(), &text);
  Line("variants", absl::StrJoin(info.variants(), ", "), &text);
  Line("languages", absl::StrJoin(info.languages(), ", "), &text);
  if (const uint32_t alignment = info.limits().buffer_offset_alignment(); alignment > 1) {
    Line("buffer parts", absl::StrCat("in place at multiples of ", alignment, " bytes"), &text);
  }
  Line("compute mode", info.compute_mode(), &text);
  if (!info.compute_mode().empty()) {
    Line("MPS", info.mps() ? "on" : "off", &text);
    Line("MIG", info.mig() ? "a MIG instance" : "off", &text);
  }
  if (info.state() == v1::DEVICE_UP) Line("weakened", info.reason(), &text);
  return text;
}

}  // namespace kcache::ctl
