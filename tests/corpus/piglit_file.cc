#include "tests/corpus/piglit_file.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <sstream>
#include <utility>

#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::corpus {
namespace {

absl::Status Bad(const std::string& what) { return MakeError(v1::BAD_REQUEST, what); }

std::vector<std::string> Words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string Trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

bool IsTrue(const std::string& value) { return value == "true" || value == "1"; }

uint32_t Number(const std::string& word) {
  return static_cast<uint32_t>(std::strtoul(word.c_str(), nullptr, 0));
}

// The three sizes of one line. Those of dimensions that a launch does not have are written as 0.
std::array<uint32_t, 3> Sizes(const std::string& value) {
  std::array<uint32_t, 3> sizes{0, 0, 0};
  const std::vector<std::string> words = Words(value);
  for (size_t i = 0; i < sizes.size() && i < words.size(); ++i) sizes[i] = Number(words[i]);
  return sizes;
}

// Keys that say the same in [config], as a default, and in [test].
bool ApplyLaunchKey(const std::string& key, const std::string& value, PiglitTest* test) {
  if (key == "kernel_name") {
    test->kernel = Lower(value) == "null" ? "" : value;
  } else if (key == "dimensions") {
    test->dimensions = Number(value);
  } else if (key == "global_size") {
    test->global = Sizes(value);
  } else if (key == "local_size") {
    test->local.reset();
    if (Lower(value) != "null") test->local = Sizes(value);
  } else if (key == "global_offset") {
    test->offset = Lower(value) == "null" ? std::array<uint32_t, 3>{0, 0, 0} : Sizes(value);
  } else if (key == "expect_test_fail") {
    test->expect_fail = IsTrue(value);
  } else {
    return false;
  }
  return true;
}

bool ApplyConfigKey(const std::string& key, const std::string& value, PiglitFile* file) {
  if (key == "name") {
    file->name = value;
  } else if (key == "clc_version_min") {
    file->minimum_version = Number(value);
  } else if (key == "clc_version_max") {
    file->maximum_version = Number(value);
  } else if (key == "platform_regex") {
    file->platform_regex = value;
  } else if (key == "device_regex") {
    file->device_regex = value;
  } else if (key == "require_device_extensions") {
    file->device_extensions = Words(value);
  } else if (key == "require_platform_extensions") {
    // None of the files here names one that a driver of today lacks.
  } else if (key == "build_options") {
    file->build_options = Words(value);
  } else if (key == "expect_build_fail") {
    file->expect_build_fail = IsTrue(value);
  } else if (key == "need_image_support") {
    file->needs_images = IsTrue(value);
  } else {
    return false;
  }
  return true;
}

// The words of one argument, read from the front.
class ArgumentReader {
 public:
  explicit ArgumentReader(const std::string& text) : words_(Words(text)) {}

  bool done() const { return next_ == words_.size(); }
  std::string Peek() const { return done() ? std::string() : words_[next_]; }
  std::string Next() { return done() ? std::string() : words_[next_++]; }

  // Everything up to one of the words that end a list of values.
  std::vector<std::string> Values() {
    std::vector<std::string> values;
    while (!done() && Peek() != "tolerance" && Peek().rfind("image_", 0) != 0)
      values.push_back(Next());
    return values;
  }

 private:
  const std::vector<std::string> words_;
  size_t next_ = 0;
};

absl::Status ReadContent(ArgumentReader* reader, uint64_t count, PiglitArgument* argument) {
  std::vector<std::string> values = reader->Values();
  const std::string first = values.empty() ? std::string() : Lower(values[0]);
  if (first == "null") {
    argument->kind = PiglitArgument::Kind::kNull;
    return absl::OkStatus();
  }
  if (first == "random") {  // piglit, too, leaves the memory as it is
    argument->bytes = std::string(count * argument->type.Bytes(), '\0');
    return absl::OkStatus();
  }
  const bool repeat = first == "repeat";
  if (repeat) values.erase(values.begin());
  absl::StatusOr<std::string> bytes = EncodeValues(argument->type, count, values, repeat);
  if (!bytes.ok()) return bytes.status();
  argument->bytes = *std::move(bytes);
  return absl::OkStatus();
}

absl::Status ReadTolerance(ArgumentReader* reader, PiglitArgument* argument) {
  if (reader->Peek() != "tolerance") return absl::OkStatus();
  reader->Next();
  const std::string value = reader->Next();
  if (reader->Peek() == "ulp") {
    reader->Next();
    argument->tolerance.ulps = std::strtoull(value.c_str(), nullptr, 0);
    return absl::OkStatus();
  }
  argument->tolerance.integer = std::strtoull(value.c_str(), nullptr, 0);
  argument->tolerance.absolute = std::strtod(value.c_str(), nullptr);
  return absl::OkStatus();
}

absl::Status ReadBuffer(ArgumentReader* reader, PiglitArgument* argument) {
  argument->kind = PiglitArgument::Kind::kBuffer;
  const std::string declaration = reader->Next();  // "float4[16]"
  const size_t bracket = declaration.find('[');
  const std::optional<ValueType> type = ParseValueType(declaration.substr(0, bracket));
  if (!type || bracket == std::string::npos) return Bad("no buffer type: " + Quoted(declaration));
  argument->type = *type;
  if (absl::Status status = ReadContent(reader, Number(declaration.substr(bracket + 1)), argument);
      !status.ok()) {
    return status;
  }
  return ReadTolerance(reader, argument);
}

absl::Status ReadImage(ArgumentReader* reader, PiglitArgument* argument) {
  argument->kind = PiglitArgument::Kind::kImage;
  const std::string name = reader->Next();
  const std::optional<ValueType> type = ParseValueType(name);
  if (!type) return Bad("no pixel type: " + Quoted(name));
  argument->type = *type;
  // The values come before what says how many they are.
  std::string values;
  for (const std::string& word : reader->Values()) values += word + " ";
  std::map<std::string, std::string> properties;
  while (reader->Peek().rfind("image_", 0) == 0) {
    const std::string key = reader->Next();
    properties[key] = Lower(reader->Next());
  }
  static const std::map<std::string, v1::ChannelOrder> kOrders{{"r", v1::CHANNEL_R},
                                                               {"rg", v1::CHANNEL_RG},
                                                               {"rgba", v1::CHANNEL_RGBA},
                                                               {"bgra", v1::CHANNEL_BGRA},
                                                               {"a", v1::CHANNEL_A}};
  static const std::map<std::string, v1::ChannelType> kTypes{
      {"snorm_int8", v1::CHANNEL_SNORM8},     {"snorm_int16", v1::CHANNEL_SNORM16},
      {"unorm_int8", v1::CHANNEL_UNORM8},     {"unorm_int16", v1::CHANNEL_UNORM16},
      {"signed_int8", v1::CHANNEL_SINT8},     {"signed_int16", v1::CHANNEL_SINT16},
      {"signed_int32", v1::CHANNEL_SINT32},   {"unsigned_int8", v1::CHANNEL_UINT8},
      {"unsigned_int16", v1::CHANNEL_UINT16}, {"unsigned_int32", v1::CHANNEL_UINT32},
      {"half_float", v1::CHANNEL_FLOAT16},    {"float", v1::CHANNEL_FLOAT32}};
  const auto order = kOrders.find(properties["image_channel_order"]);
  const auto channel = kTypes.find(properties["image_channel_data_type"]);
  if (properties["image_type"] != "2d" || order == kOrders.end() || channel == kTypes.end()) {
    return Bad("an image kind that is not covered");
  }
  argument->image.set_dimensions(v1::IMAGE_2D);
  argument->image.set_order(order->second);
  argument->image.set_type(channel->second);
  argument->image.set_width(Number(properties["image_width"]));
  argument->image.set_height(Number(properties["image_height"]));
  ArgumentReader content(values);
  const uint64_t pixels = uint64_t{argument->image.width()} * argument->image.height();
  if (absl::Status status = ReadContent(&content, pixels, argument); !status.ok()) return status;
  return ReadTolerance(reader, argument);
}

absl::Status ReadSampler(ArgumentReader* reader, PiglitArgument* argument) {
  argument->kind = PiglitArgument::Kind::kSampler;
  static const std::map<std::string, v1::SamplerAddressing> kModes{
      {"none", v1::ADDRESSING_NONE},
      {"clamp_to_edge", v1::ADDRESSING_CLAMP_TO_EDGE},
      {"clamp", v1::ADDRESSING_CLAMP},
      {"repeat", v1::ADDRESSING_REPEAT},
      {"mirrored_repeat", v1::ADDRESSING_MIRRORED_REPEAT}};
  while (!reader->done()) {
    const std::string key = reader->Next();
    const std::string value = Lower(reader->Next());
    if (key == "normalized_coords") {
      argument->sampler.set_normalized_coordinates(IsTrue(value));
    } else if (key == "addressing_mode" && kModes.count(value) != 0) {
      argument->sampler.set_addressing(kModes.at(value));
    } else if (key == "filter_mode") {
      argument->sampler.set_linear(value == "linear");
    } else {
      return Bad("no sampler property: " + key + " " + value);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<PiglitArgument> ReadArgument(const std::string& text) {
  ArgumentReader reader(text);
  PiglitArgument argument;
  argument.index = Number(reader.Next());
  const std::string kind = reader.Peek();
  absl::Status status;
  if (kind == "buffer") {
    reader.Next();
    status = ReadBuffer(&reader, &argument);
  } else if (kind == "image") {
    reader.Next();
    status = ReadImage(&reader, &argument);
  } else if (kind == "sampler") {
    reader.Next();
    status = ReadSampler(&reader, &argument);
  } else {
    const std::optional<ValueType> type = ParseValueType(reader.Next());
    if (!type) return Bad("no argument type: " + Quoted(kind));
    argument.type = *type;
    status = ReadContent(&reader, 1, &argument);
  }
  if (!status.ok()) return status;
  if (!reader.done()) return Bad("left over: " + Quoted(reader.Peek()));
  return argument;
}

// The block's lines, without comments and with continued lines joined.
std::vector<std::string> LogicalLines(std::string_view block) {
  std::istringstream stream{std::string(block)};
  std::vector<std::string> lines;
  bool continues = false;
  for (std::string raw; std::getline(stream, raw);) {
    std::string line = Trimmed(raw.substr(0, raw.find('#')));
    const bool continued = !line.empty() && line.back() == '\\';
    if (continued) line.pop_back();
    if (continues && !lines.empty()) {
      lines.back() += " " + line;
    } else {
      lines.push_back(line);
    }
    continues = continued;
  }
  return lines;
}

class BlockParser {
 public:
  explicit BlockParser(PiglitFile* file) : file_(file) {}

  absl::Status Line(const std::string& line) {
    if (line.empty()) return absl::OkStatus();
    if (line.front() == '[') return Section(line);
    const size_t colon = line.find(':');
    if (colon == std::string::npos) return Bad("neither a section nor a key");
    const std::string key = Trimmed(line.substr(0, colon));
    const std::string value = Trimmed(line.substr(colon + 1));
    if (file_->tests.empty()) {
      if (ApplyLaunchKey(key, value, &defaults_) || ApplyConfigKey(key, value, file_))
        return absl::OkStatus();
      return Bad("no key of [config]: " + Quoted(key));
    }
    return TestKey(key, value, &file_->tests.back());
  }

 private:
  absl::Status Section(const std::string& line) {
    if (line == "[config]") return absl::OkStatus();
    if (line != "[test]") return Bad("no section: " + Quoted(line));
    file_->tests.push_back(defaults_);
    return absl::OkStatus();
  }

  static absl::Status TestKey(const std::string& key, const std::string& value, PiglitTest* test) {
    if (ApplyLaunchKey(key, value, test)) return absl::OkStatus();
    if (key == "name") {
      test->name = value;
      return absl::OkStatus();
    }
    if (key != "arg_in" && key != "arg_out") return Bad("no key of [test]: " + Quoted(key));
    absl::StatusOr<PiglitArgument> argument = ReadArgument(value);
    if (!argument.ok()) return argument.status();
    (key == "arg_in" ? test->in : test->out).push_back(*std::move(argument));
    return absl::OkStatus();
  }

  PiglitFile* const file_;
  PiglitTest defaults_;
};

}  // namespace

absl::StatusOr<PiglitFile> ParsePiglitFile(std::string_view text) {
  PiglitFile file;
  file.source = std::string(text);
  const size_t begin = text.find("/*!");
  const size_t end = text.find("!*/");
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return file;
  BlockParser parser(&file);
  for (const std::string& line : LogicalLines(text.substr(begin + 3, end - begin - 3))) {
    if (absl::Status status = parser.Line(line); !status.ok()) {
      return Annotate(status, "in the line " + Quoted(line, 60));
    }
  }
  return file;
}

}  // namespace kcache::corpus
