#include "tests/chaos/validate/validator.h"

namespace kcache::chaos {

const std::vector<Validator>& AllValidators() {
  static const auto* const validators = new std::vector<Validator>{
      {"executes-after-release", "G1 safety", NothingExecutesAfterRelease},
      {"release-waits", "G1 grace", ReleaseWaitsForHolders},
      {"valid-launches", "G1 no valid launch refused", ValidLaunchesAreTaken},
      {"told-before-after", "G2", ToldBeforeAndAfter},
      {"built-destroyed", "G3, G12", BuiltIsDestroyedOrRetained},
      {"leases-end", "G7, G11", LeasesEndWithTheirSession},
      {"one-compile", "G4", OneCompile},
      {"operations-end", "every teardown ends", OperationsEndInTime},
      {"nothing-left", "G13, S28", NothingIsLeftBehind},
      {"nobody-crashes", "G8", NobodyCrashes},
  };
  return *validators;
}

}  // namespace kcache::chaos
