#include "client/ctl/json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/reflection.h>

#include <array>
#include <cstdio>
#include <utility>
#include <vector>

#include "contract/strings.h"

namespace kcache::ctl {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Protobuf's own printer writes bytes as base64 and 64-bit numbers as strings, neither of which can
// be pasted into the next command or compared in a shell.
class Printer {
 public:
  explicit Printer(bool pretty) : pretty_(pretty) {}

  void PrintMessage(const Message& message) {
    Open('{');
    const auto* descriptor = message.GetDescriptor();
    for (int i = 0; i < descriptor->field_count(); ++i) {
      const FieldDescriptor* field = descriptor->field(i);
      const Reflection* reflection = message.GetReflection();
      if (!field->is_repeated() && field->has_presence() && !reflection->HasField(message, field)) {
        continue;
      }
      Item();
      String(field->name());
      out_ += pretty_ ? ": " : ":";
      if (field->is_map()) {
        PrintMap(message, field);
      } else if (field->is_repeated()) {
        Open('[');
        for (int k = 0; k < reflection->FieldSize(message, field); ++k) {
          Item();
          Value(message, field, k);
        }
        Close(']');
      } else {
        Value(message, field, -1);
      }
    }
    Close('}');
  }

  std::string Take() { return std::move(out_); }

 private:
  void PrintMap(const Message& message, const FieldDescriptor* field) {
    Open('{');
    const Reflection* reflection = message.GetReflection();
    for (int k = 0; k < reflection->FieldSize(message, field); ++k) {
      const Message& entry = reflection->GetRepeatedMessage(message, field, k);
      Item();
      Value(entry, entry.GetDescriptor()->map_key(), -1);
      out_ += pretty_ ? ": " : ":";
      Value(entry, entry.GetDescriptor()->map_value(), -1);
    }
    Close('}');
  }

  void Value(const Message& message, const FieldDescriptor* field, int k) {
    const Reflection* reflection = message.GetReflection();
    const bool repeated = k >= 0;
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        out_ += std::to_string(repeated ? reflection->GetRepeatedInt32(message, field, k)
                                        : reflection->GetInt32(message, field));
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        out_ += std::to_string(repeated ? reflection->GetRepeatedInt64(message, field, k)
                                        : reflection->GetInt64(message, field));
        break;
      case FieldDescriptor::CPPTYPE_UINT32:
        out_ += std::to_string(repeated ? reflection->GetRepeatedUInt32(message, field, k)
                                        : reflection->GetUInt32(message, field));
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        out_ += std::to_string(repeated ? reflection->GetRepeatedUInt64(message, field, k)
                                        : reflection->GetUInt64(message, field));
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        out_ += std::to_string(repeated ? reflection->GetRepeatedDouble(message, field, k)
                                        : reflection->GetDouble(message, field));
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        out_ += std::to_string(repeated ? reflection->GetRepeatedFloat(message, field, k)
                                        : reflection->GetFloat(message, field));
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        out_ += (repeated ? reflection->GetRepeatedBool(message, field, k)
                          : reflection->GetBool(message, field))
                    ? "true"
                    : "false";
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        String((repeated ? reflection->GetRepeatedEnum(message, field, k)
                         : reflection->GetEnum(message, field))
                   ->name());
        break;
      case FieldDescriptor::CPPTYPE_STRING: {
        const std::string value = repeated ? reflection->GetRepeatedString(message, field, k)
                                           : reflection->GetString(message, field);
        String(field->type() == FieldDescriptor::TYPE_BYTES ? ToHex(value) : value);
        break;
      }
      case FieldDescriptor::CPPTYPE_MESSAGE:
        PrintMessage(repeated ? reflection->GetRepeatedMessage(message, field, k)
                              : reflection->GetMessage(message, field));
        break;
    }
  }

  void String(const std::string& text) {
    out_ += '"';
    for (const char c : text) {
      switch (c) {
        case '"':
          out_ += "\\\"";
          break;
        case '\\':
          out_ += "\\\\";
          break;
        case '\n':
          out_ += "\\n";
          break;
        case '\t':
          out_ += "\\t";
          break;
        default:
          if (static_cast<unsigned char>(c) < 0x20) {
            std::array<char, 8> escaped;
            std::snprintf(escaped.data(), escaped.size(), "\\u%04x", c);
            out_ += escaped.data();
          } else {
            out_ += c;
          }
      }
    }
    out_ += '"';
  }

  void Open(char bracket) {
    out_ += bracket;
    empty_.push_back(true);
  }
  void Item() {
    if (!empty_.back()) out_ += ',';
    empty_.back() = false;
    NewLine();
  }
  void Close(char bracket) {
    const bool empty = empty_.back();
    empty_.pop_back();
    if (!empty) NewLine();
    out_ += bracket;
  }
  void NewLine() {
    if (!pretty_) return;
    out_ += '\n';
    out_.append(2 * empty_.size(), ' ');
  }

  const bool pretty_;
  std::string out_;
  std::vector<bool> empty_;
};

}  // namespace

std::string Json(const Message& message, bool pretty) {
  Printer printer(pretty);
  printer.PrintMessage(message);
  return printer.Take();
}

}  // namespace kcache::ctl
