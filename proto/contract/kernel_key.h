// The three keys of the cache, the same on both ends.
//
//   program digest   what a program is: language, source, headers, defines, flags, …
//   artifact key     + framework, architecture, compiler, driver: what a device binary depends on.
//                    Never the entry name: one source with fifty kernels compiles once.
//   handle key       + entry, specialization, device, trust domain, generation: one entry point of
//                    one artifact loaded in one life of one context.
//
// All are SHA-256 over length-prefixed fields (contract/digest.h) that start with the schema's
// name, so a change of schema changes every key and old entries become misses. Headers and defines
// are keyed by name and their order does not matter; name expressions and launch shapes are sets;
// flags keep their order, because compilers do.
//
// Threads: pure functions, any thread.

#ifndef KCACHE_CONTRACT_KERNEL_KEY_H_
#define KCACHE_CONTRACT_KERNEL_KEY_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "contract/device_name.h"
#include "contract/digest.h"
#include "kcache/v1/types.pb.h"

namespace kcache {

// The digest of a program, or why the manifest cannot be one. BAD_REQUEST names the field and its
// value: no language, a digest that is not 32 bytes, two headers or two defines of one name, a
// header name that is absolute or leaves its tree ("..": headers travel by content, a caller's
// paths mean nothing here), an empty name. INVALID_UTF8 names the field that is not UTF-8.
absl::StatusOr<Digest> ProgramDigest(const v1::ProgramManifest& manifest);

struct ArtifactFields {
  Digest program;
  std::string_view framework;             // "CUDA", "CUDA/PTX"
  std::string_view architecture;          // "sm_90a"
  std::string_view compiler_fingerprint;  // version, build id, toolkit headers
  std::string_view driver_version;        // empty where the binary does not depend on it
  std::string_view trust_domain;          // only for pre-built binaries, which stay in their domain
};

Digest ArtifactKey(const ArtifactFields& fields);

// Canonical bytes of a specialization (a digest of constants by id, then the local size).
// BAD_REQUEST for two constants of one id or a value that is not 4 or 8 bytes.
absl::StatusOr<std::string> SpecializationBytes(const v1::Specialization& specialization);

struct HandleFields {
  Digest artifact;
  std::string_view entry;
  std::string_view specialization;  // SpecializationBytes
  DeviceName device;
  std::string_view trust_domain;
  uint64_t generation = 0;
};

Digest HandleKey(const HandleFields& fields);

}  // namespace kcache

#endif  // KCACHE_CONTRACT_KERNEL_KEY_H_
