// Runs a fuzzer without libFuzzer, so that any compiler's build replays what was found: the inputs of a
// corpus, then mutations of them from a fixed seed.
//
//   NAME CORPUS [MUTATIONS]

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" __attribute__((weak)) int LLVMFuzzerInitialize(int* argc, char*** argv);

namespace {

std::string Mutated(std::string input, std::mt19937* random) {
  const auto below = [random](size_t limit) { return (*random)() % limit; };
  for (size_t changes = 1 + below(8); changes > 0; --changes) {
    const size_t at = input.empty() ? 0 : below(input.size());
    switch (input.empty() ? 0 : below(4)) {
      case 0: {
        std::string bytes(1 + below(32), '\0');
        for (char& byte : bytes) byte = static_cast<char>((*random)());
        input.insert(at, bytes);
        break;
      }
      case 1:
        input.erase(at, 1 + below(8));
        break;
      case 2:
        input.insert(at, input.substr(below(input.size()), 1 + below(32)));
        break;
      default:
        input[at] = static_cast<char>((*random)());
    }
  }
  return input;
}

void Run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s CORPUS [MUTATIONS]\n", argv[0]);
    return 2;
  }
  if (LLVMFuzzerInitialize != nullptr) LLVMFuzzerInitialize(&argc, &argv);
  std::vector<std::filesystem::path> files;
  for (const auto& file : std::filesystem::directory_iterator(argv[1])) files.push_back(file.path());
  std::sort(files.begin(), files.end());
  std::vector<std::string> corpus;
  for (const auto& path : files) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    std::fprintf(stderr, "%s\n", path.filename().c_str());
    Run(corpus.back());
  }
  if (corpus.empty()) corpus.emplace_back();
  const int mutations = argc > 2 ? std::atoi(argv[2]) : 0;
  std::mt19937 random(1);
  // What violates something is left where the next run finds it.
  const char* keep = std::getenv("KCACHE_FUZZ_INPUT");
  for (int i = 0; i < mutations; ++i) {
    std::string input = Mutated(corpus[random() % corpus.size()], &random);
    if (keep != nullptr) std::ofstream(keep, std::ios::binary) << input;
    Run(input);
    if (corpus.size() < 1000) corpus.push_back(std::move(input));
  }
  std::fprintf(stderr, "%zu inputs, %d mutations\n", files.size(), mutations);
  return 0;
}
