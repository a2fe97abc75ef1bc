#include "daemon/ops/secure_random.h"

#include <openssl/rand.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace kcache::ops {

std::string SecureRandom::Bytes(size_t count) {
  std::string bytes(count, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) != 1) {
    std::fputs("kcached: the random number generator failed\n", stderr);
    std::abort();
  }
  return bytes;
}

uint64_t SecureRandom::Id() {
  uint64_t id = 0;
  while (id == 0) std::memcpy(&id, Bytes(sizeof id).data(), sizeof id);
  return id;
}

}  // namespace kcache::ops
