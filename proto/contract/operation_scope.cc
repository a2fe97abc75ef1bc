#include "contract/operation_scope.h"

#include <openssl/rand.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache {

OperationScope OperationScope::New() {
  std::string id(kBytes, '\0');
  // Without randomness two operations would merge; there is nothing sensible to go on with.
  if (RAND_bytes(reinterpret_cast<unsigned char*>(id.data()), kBytes) != 1) std::abort();
  return OperationScope(std::move(id));
}

absl::StatusOr<OperationScope> OperationScope::FromBytes(std::string_view bytes) {
  if (bytes.size() != kBytes) {
    return MakeError(v1::BAD_REQUEST,
                     absl::StrCat("an operation id has ", kBytes, " bytes, not ", bytes.size()));
  }
  if (bytes.find_first_not_of('\0') == std::string_view::npos) {
    return MakeError(v1::BAD_REQUEST, "an operation id of all zeros is not valid");
  }
  return OperationScope(std::string(bytes));
}

std::string OperationScope::hex() const { return ToHex(id_); }

}  // namespace kcache
