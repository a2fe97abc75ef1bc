#include "contract/operation_scope.h"

#include <set>
#include <string>

#include "contract/error_reason.h"
#include "gtest/gtest.h"

namespace kcache {
namespace {

TEST(OperationScope, NewOnesDiffer) {
  std::set<std::string> ids;
  for (int i = 0; i < 100; ++i) ids.insert(OperationScope::New().id());
  EXPECT_EQ(ids.size(), 100u);
  EXPECT_EQ(ids.begin()->size(), OperationScope::kBytes);
}

TEST(OperationScope, TravelsAsBytes) {
  const OperationScope scope = OperationScope::New();
  const auto back = OperationScope::FromBytes(scope.id());
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, scope);
  EXPECT_EQ(back->hex().size(), 32u);
}

TEST(OperationScope, RefusesZeroAndOtherLengths) {
  EXPECT_EQ(ReasonOf(OperationScope::FromBytes("").status()), v1::BAD_REQUEST);
  EXPECT_EQ(ReasonOf(OperationScope::FromBytes(std::string(15, 'x')).status()), v1::BAD_REQUEST);
  EXPECT_EQ(ReasonOf(OperationScope::FromBytes(std::string(17, 'x')).status()), v1::BAD_REQUEST);
  EXPECT_EQ(ReasonOf(OperationScope::FromBytes(std::string(16, '\0')).status()), v1::BAD_REQUEST);
}

}  // namespace
}  // namespace kcache
