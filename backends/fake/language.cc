#include "backends/fake/language.h"

#include <cctype>
#include <charconv>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::fake {
namespace {

absl::Status Failed(const std::string& log) { return MakeError(v1::COMPILE_FAILED, log); }

std::string At(int line, const std::string& what) {
  return absl::StrCat(line, ": error: ", what, "\n");
}

// One line at a time: tokens of a text, and a cursor.
class Tokens {
 public:
  explicit Tokens(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
      const unsigned char c = text[at];
      if (std::isspace(c) != 0) {
        ++at;
        continue;
      }
      size_t end = at + 1;
      if (std::isalnum(c) != 0 || c == '_' || c == '.') {
        while (end < text.size() &&
               (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_' ||
                text[end] == '.')) {
          ++end;
        }
      }
      tokens_.emplace_back(text.substr(at, end - at));
      at = end;
    }
  }
  bool done() const { return at_ == tokens_.size(); }
  std::string peek() const { return done() ? "" : tokens_[at_]; }
  std::string next() { return done() ? "" : tokens_[at_++]; }
  bool Take(std::string_view token) {
    if (peek() != token || done()) return false;
    ++at_;
    return true;
  }

 private:
  std::vector<std::string> tokens_;
  size_t at_ = 0;
};

bool IsName(const std::string& token) {
  return !token.empty() &&
         (std::isalpha(static_cast<unsigned char>(token[0])) != 0 || token[0] == '_');
}

std::optional<double> Number(const std::string& token) {
  double value = 0;
  const char* const end = token.data() + token.size();
  const auto [at, error] = std::from_chars(token.data(), end, value);
  if (error != std::errc() || at != end) return std::nullopt;
  return value;
}

class Parser {
 public:
  explicit Parser(const Environment& environment) : environment_(environment) {}

  absl::StatusOr<ProgramCode> Run(std::string_view text) {
    for (size_t at = 0; at <= text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      ++line_;
      std::string_view line = text.substr(at, end - at);
      if (const size_t comment = line.find('#'); comment != line.npos) {
        line = line.substr(0, comment);
      }
      Line(line);
      at = end + 1;
    }
    if (in_kernel_) Complain("the body of " + kernel_.name + " is not closed");
    if (!log_.empty()) return Failed(log_);
    return std::move(program_);
  }

 private:
  void Complain(const std::string& what) {
    if (line_ == last_complaint_) return;
    last_complaint_ = line_;
    log_ += At(line_, what);
  }

  // A line may open a body, hold statements of it, and close it.
  void Line(std::string_view line) {
    while (!line.empty()) {
      if (!in_kernel_) {
        const size_t open = line.find('{');
        Declaration(Tokens(line.substr(0, open)), open != line.npos);
        if (open == line.npos) return;
        line.remove_prefix(open + 1);
        continue;
      }
      const size_t end = line.find_first_of(";}");
      Tokens tokens(line.substr(0, end));
      if (!tokens.done()) ParseStatement(&tokens);
      if (end == line.npos) return;
      if (line[end] == '}') {
        in_kernel_ = false;
        program_.kernels.push_back(std::move(kernel_));
      }
      line.remove_prefix(end + 1);
    }
  }

  void Declaration(Tokens tokens, bool opens) {
    if (tokens.done() && !opens) return;
    const std::string word = tokens.next();
    if (word == "pragma" && !opens) return;  // the compiler's and the context's
    if (word == "constant" && !opens) return Constant(&tokens);
    if (word != "kernel" || !opens) {
      Complain("expected `kernel NAME(parameters) {`, found " + Quoted(word));
      in_kernel_ = opens;
      kernel_ = KernelCode();
      return;
    }
    Kernel(&tokens);
  }

  void Constant(Tokens* tokens) {
    SpecConstant constant;
    constant.name = tokens->next();
    const std::optional<double> id = Number(tokens->next());
    const bool equals = tokens->Take("=");
    const std::optional<double> value = Number(tokens->next());
    if (!IsName(constant.name) || !id || !equals || !value || !tokens->done()) {
      return Complain("expected `constant NAME ID = VALUE`");
    }
    constant.id = static_cast<uint32_t>(*id);
    constant.value = *value;
    program_.constants.push_back(std::move(constant));
  }

  void Kernel(Tokens* tokens) {
    kernel_ = KernelCode();
    in_kernel_ = true;
    kernel_.name = tokens->next();
    if (!IsName(kernel_.name)) return Complain("expected the kernel's name");
    for (const KernelCode& other : program_.kernels) {
      if (other.name == kernel_.name) return Complain("a second kernel " + kernel_.name);
    }
    if (!tokens->Take("(")) return Complain("expected ( after " + kernel_.name);
    while (!tokens->Take(")")) {
      if (!kernel_.parameters.empty() && !tokens->Take(",")) return Complain("expected , or )");
      Parameter parameter;
      const std::string kind = tokens->next();
      std::string word = tokens->next();
      const bool typed = word == "u32" || word == "f32" || word == "u64";
      if (typed) {
        parameter.type = word == "f32"   ? ElementType::kF32
                         : word == "u64" ? ElementType::kU64
                                         : ElementType::kU32;
        word = tokens->next();
      }
      if (kind == "scalar" && typed) {
        parameter.kind = Parameter::Kind::kScalar;
      } else if (kind == "local" && !typed) {
        parameter.kind = Parameter::Kind::kLocal;
      } else if (kind != "buffer") {
        return Complain("expected `buffer`, `scalar TYPE` or `local`, found " + Quoted(kind));
      }
      if (!IsName(word)) return Complain("expected a parameter's name, found " + Quoted(word));
      parameter.name = word;
      if (parameter.kind == Parameter::Kind::kScalar && word == "n") {
        kernel_.bound = static_cast<int>(kernel_.parameters.size());
      }
      kernel_.parameters.push_back(std::move(parameter));
    }
    if (tokens->Take("local")) {
      const std::optional<double> size = Number(tokens->next());
      if (!size || *size < 1) return Complain("expected a local size");
      kernel_.required_local = static_cast<uint32_t>(*size);
    }
    if (!tokens->done()) Complain("unexpected " + Quoted(tokens->peek()));
  }

  void ParseStatement(Tokens* tokens) {
    Statement statement;
    statement.line = line_;
    if (tokens->Take("fault")) {
      statement.kind = Statement::Kind::kFault;
    } else {
      const bool await = tokens->Take("await");
      statement.kind = await ? Statement::Kind::kAwait : Statement::Kind::kAssign;
      const std::string name = tokens->next();
      statement.buffer = FindParameter(name);
      if (statement.buffer < 0 ||
          kernel_.parameters[statement.buffer].kind != Parameter::Kind::kBuffer) {
        return Complain(Quoted(name) + " is not a buffer");
      }
      if (!tokens->Take("[")) return Complain("expected [ after " + name);
      statement.index = Sum(tokens);
      if (!tokens->Take("]")) return Complain("expected ]");
      if (!await) {
        if (!tokens->Take("=")) return Complain("expected =");
        statement.value = Sum(tokens);
      }
    }
    if (!tokens->done()) return Complain("unexpected " + Quoted(tokens->peek()));
    kernel_.statements.push_back(std::move(statement));
  }

  int FindParameter(const std::string& name) const {
    for (size_t i = 0; i < kernel_.parameters.size(); ++i) {
      if (kernel_.parameters[i].name == name) return static_cast<int>(i);
    }
    return -1;
  }

  std::unique_ptr<Expression> Binary(char name, std::unique_ptr<Expression> left,
                                     std::unique_ptr<Expression> right) {
    auto expression = std::make_unique<Expression>();
    expression->kind = Expression::Kind::kBinary;
    expression->name = name;
    expression->left = std::move(left);
    expression->right = std::move(right);
    return expression;
  }

  std::unique_ptr<Expression> Sum(Tokens* tokens) {
    std::unique_ptr<Expression> left = Product(tokens);
    while (tokens->peek() == "+" || tokens->peek() == "-") {
      const char name = tokens->next()[0];
      left = Binary(name, std::move(left), Product(tokens));
    }
    return left;
  }

  std::unique_ptr<Expression> Product(Tokens* tokens) {
    std::unique_ptr<Expression> left = Operand(tokens);
    while (tokens->peek() == "*" || tokens->peek() == "/" || tokens->peek() == "%") {
      const char name = tokens->next()[0];
      left = Binary(name, std::move(left), Operand(tokens));
    }
    return left;
  }

  std::unique_ptr<Expression> Operand(Tokens* tokens) {
    auto expression = std::make_unique<Expression>();
    if (++depth_ > 100) {
      Complain("the expression is nested too deep");
    } else if (tokens->Take("(")) {
      expression = Sum(tokens);
      if (!tokens->Take(")")) Complain("expected )");
    } else {
      Word(tokens, expression.get());
    }
    --depth_;
    return expression;
  }

  void Word(Tokens* tokens, Expression* expression) {
    const std::string word = tokens->next();
    if (const std::optional<double> number = Number(word)) {
      expression->number = *number;
      return;
    }
    if (const int parameter = FindParameter(word); parameter >= 0) {
      expression->index = parameter;
      if (kernel_.parameters[parameter].kind == Parameter::Kind::kScalar) {
        expression->kind = Expression::Kind::kParameter;
        return;
      }
      expression->kind = Expression::Kind::kElement;
      if (kernel_.parameters[parameter].kind == Parameter::Kind::kLocal || !tokens->Take("[")) {
        return Complain("expected [ after " + word);
      }
      expression->left = Sum(tokens);
      if (!tokens->Take("]")) Complain("expected ]");
      return;
    }
    if (word == "i" || word == "x" || word == "y" || word == "z" || word == "group" ||
        word == "lid") {
      expression->kind = Expression::Kind::kWorkItem;
      expression->name = word[0];
      return;
    }
    for (size_t i = 0; i < program_.constants.size(); ++i) {
      if (program_.constants[i].name != word) continue;
      expression->kind = Expression::Kind::kConstant;
      expression->index = static_cast<int>(i);
      return;
    }
    if (const auto define = environment_.defines.find(word); define != environment_.defines.end()) {
      expression->number = define->second;
      return;
    }
    Complain(word.empty() ? "the expression ends too early" : Quoted(word) + " is not declared");
  }

  const Environment& environment_;
  ProgramCode program_;
  KernelCode kernel_;
  bool in_kernel_ = false;
  int line_ = 0;
  int last_complaint_ = 0;
  int depth_ = 0;
  std::string log_;
};

}  // namespace

uint64_t SizeOf(ElementType type) { return type == ElementType::kU64 ? 8 : 4; }

const char* NameOf(ElementType type) {
  return type == ElementType::kU64 ? "u64" : type == ElementType::kF32 ? "f32" : "u32";
}

absl::StatusOr<std::string> Preprocess(std::string_view text, const Environment& environment) {
  std::string out;
  int number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    ++number;
    at = end + 1;
    Tokens tokens(line);
    if (!tokens.Take("include")) {
      absl::StrAppend(&out, AbslView(line), "\n");
      continue;
    }
    const size_t open = line.find('"');
    const size_t close = line.rfind('"');
    const std::string name(open == close ? "" : line.substr(open + 1, close - open - 1));
    const auto header = environment.headers.find(name);
    if (header == environment.headers.end()) {
      return Failed(At(number, "no header " + Quoted(name)));
    }
    absl::StrAppend(&out, header->second, "\n");
  }
  return out;
}

absl::StatusOr<ProgramCode> Parse(std::string_view text, const Environment& environment) {
  return Parser(environment).Run(text);
}

}  // namespace kcache::backend::fake
