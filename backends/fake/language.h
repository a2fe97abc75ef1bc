// The fake's kernel language: small, but with real results.
//
//   # everything behind a number sign is a comment
//   include "scale.h"                        the header's text, from the request
//   constant FACTOR 3 = 2                    a specialization constant: name, id, default
//   kernel add(buffer a, buffer b, buffer out, scalar u32 n) {
//     out[i] = a[i] + b[i]
//   }
//   kernel halve(buffer f32 x) local 64 {    a required local size
//     x[i] = x[i] / 2
//   }
//
// Parameters: `buffer [u32|f32] NAME` (u32 unless said otherwise), `scalar u32|f32|u64 NAME`, `local NAME`
// (local memory; counted, never used). A body is statements, one a line or separated by `;`:
//   NAME[index] = expression     computed in the element type of NAME
//   await NAME[index]            waits until the element is not zero: a kernel as long as one likes
//   fault                        what a device does not forgive
// Expressions: + - * / % with the usual precedence, parentheses, numbers, scalars, constants, defines,
// buffer elements, and the work-item: i (linear), x y z, group, lid. Every work-item runs the whole body; those
// with i >= n do nothing where the kernel has a scalar n. An element outside its buffer is a fault.
//
// Threads: values, any thread.

#ifndef KCACHE_BACKENDS_FAKE_LANGUAGE_H_
#define KCACHE_BACKENDS_FAKE_LANGUAGE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kcache::backend::fake {

enum class ElementType { kU32, kF32, kU64 };

struct Expression {
  enum class Kind { kNumber, kParameter, kElement, kConstant, kWorkItem, kBinary };
  Kind kind = Kind::kNumber;
  double number = 0;     // kNumber
  int index = 0;         // kParameter, kElement: which parameter; kConstant: which constant
  char name = 0;         // kBinary: the operator; kWorkItem: i x y z g l
  std::unique_ptr<Expression> left, right;  // kBinary; kElement: left is the index
};

struct Statement {
  enum class Kind { kAssign, kAwait, kFault };
  Kind kind = Kind::kAssign;
  int line = 0;
  int buffer = 0;  // which parameter
  std::unique_ptr<Expression> index, value;
};

struct Parameter {
  enum class Kind { kBuffer, kScalar, kLocal };
  Kind kind = Kind::kBuffer;
  ElementType type = ElementType::kU32;
  std::string name;
};

struct SpecConstant {
  std::string name;
  uint32_t id = 0;
  double value = 0;
};

struct KernelCode {
  std::string name;
  std::vector<Parameter> parameters;
  std::vector<Statement> statements;
  uint32_t required_local = 0;
  int bound = -1;  // the parameter that is the scalar n
};

struct ProgramCode {
  std::vector<SpecConstant> constants;
  std::vector<KernelCode> kernels;
};

// What the text refers to from outside.
struct Environment {
  std::map<std::string, std::string> headers;
  std::map<std::string, double> defines;
};

// The text with its includes put in and its comments taken out, lines kept apart: what a binary holds.
// COMPILE_FAILED "2: error: …".
absl::StatusOr<std::string> Preprocess(std::string_view text, const Environment& environment);

// COMPILE_FAILED with one "LINE: error: …" line for each line that is wrong.
absl::StatusOr<ProgramCode> Parse(std::string_view text, const Environment& environment);

uint64_t SizeOf(ElementType type);
const char* NameOf(ElementType type);

}  // namespace kcache::backend::fake

#endif  // KCACHE_BACKENDS_FAKE_LANGUAGE_H_
