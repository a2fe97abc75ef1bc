#include "programs.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>

#include "absl/strings/str_cat.h"

namespace kcache::corpus {
namespace {

using Values = std::vector<int64_t>;

struct Shape {
  uint32_t threads = 0;
  uint32_t items = 0;  // a thread
  uint32_t count() const { return threads * items; }
};

struct Algorithm {
  std::string name;
  std::string header;  // between the angle brackets
  // With T, kThreads, kItems, in, out, and `items` loaded blocked.
  std::string body;
  std::function<Values(const Values& in, const Shape& shape)> expected;
  bool only_integers = false;
  bool one_item = false;  // works on one item a thread
};

constexpr uint32_t kWarp = 32;
constexpr int64_t kBins = 16;

// ---- what the algorithms compute ----------------------------------------------------------------

Values Same(const Values& in, const Shape&) { return in; }

Values Sum(const Values& in, const Shape&) {
  return {std::accumulate(in.begin(), in.end(), int64_t{0})};
}

Values Maximum(const Values& in, const Shape&) { return {*std::max_element(in.begin(), in.end())}; }

Values InclusiveSum(const Values& in, const Shape&) {
  Values out(in.size());
  std::partial_sum(in.begin(), in.end(), out.begin());
  return out;
}

Values ExclusiveSum(const Values& in, const Shape&) {
  Values out(in.size());
  std::exclusive_scan(in.begin(), in.end(), out.begin(), int64_t{0});
  return out;
}

Values Sorted(const Values& in, const Shape&) {
  Values out = in;
  std::sort(out.begin(), out.end());
  return out;
}

Values SortedDescending(const Values& in, const Shape&) {
  Values out = in;
  std::sort(out.begin(), out.end(), std::greater<>());
  return out;
}

// Item i of thread t comes from position i × threads + t, in each group of `threads`.
Values Striped(const Values& in, uint32_t threads, uint32_t items) {
  Values out;
  for (size_t group = 0; group < in.size(); group += size_t{threads} * items) {
    for (uint32_t t = 0; t < threads; ++t) {
      for (uint32_t i = 0; i < items; ++i) out.push_back(in[group + i * threads + t]);
    }
  }
  return out;
}

Values BlockStriped(const Values& in, const Shape& shape) {
  return Striped(in, shape.threads, shape.items);
}

Values WarpStriped(const Values& in, const Shape& shape) { return Striped(in, kWarp, shape.items); }

Values Histogram(const Values& in, const Shape&) {
  Values out(kBins, 0);
  for (const int64_t value : in) ++out[static_cast<size_t>(value)];
  return out;
}

Values Heads(const Values& in, const Shape&) {
  Values out(in.size(), 1);
  for (size_t i = 1; i < in.size(); ++i) out[i] = in[i] != in[i - 1] ? 1 : 0;
  return out;
}

Values Differences(const Values& in, const Shape&) {
  Values out(in.size());
  std::adjacent_difference(in.begin(), in.end(), out.begin());
  return out;
}

Values ShiftedByOne(const Values& in, const Shape&) {
  Values out(in.begin() + 1, in.end());
  out.push_back(in.back());
  return out;
}

// `each` of every warp's part of the input, one after the other.
std::function<Values(const Values&, const Shape&)> EachWarp(Values (*each)(const Values&,
                                                                           const Shape&)) {
  return [each](const Values& in, const Shape& shape) {
    Values out;
    const size_t part = size_t{kWarp} * shape.items;
    for (size_t start = 0; start < in.size(); start += part) {
      const Values of_warp = each(Values(in.begin() + static_cast<std::ptrdiff_t>(start),
                                         in.begin() + static_cast<std::ptrdiff_t>(start + part)),
                                  shape);
      out.insert(out.end(), of_warp.begin(), of_warp.end());
    }
    return out;
  };
}

// ---- the programs -------------------------------------------------------------------------------

constexpr char kStoreItems[] =
    "  for (int i = 0; i < kItems; ++i) out[threadIdx.x * kItems + i] = items[i];\n";

std::string WithStorage(const std::string& type, const std::string& call) {
  return absl::StrCat("  using A = ", type,
                      ";\n  __shared__ typename A::TempStorage storage;\n  A a(storage);\n  ", call,
                      "\n");
}

// A warp's algorithm: one storage a warp.
std::string WithWarpStorage(const std::string& type, const std::string& call) {
  return absl::StrCat("  using A = ", type,
                      ";\n  __shared__ typename A::TempStorage storage[kThreads / 32];\n"
                      "  A a(storage[threadIdx.x / 32]);\n  ",
                      call, "\n");
}

std::vector<Algorithm> Algorithms() {
  std::vector<Algorithm> algorithms;
  for (const char* how : {"RAKING", "RAKING_COMMUTATIVE_ONLY", "WARP_REDUCTIONS"}) {
    algorithms.push_back(
        {absl::StrCat("BlockReduce ", how), "cub/block/block_reduce.cuh",
         WithStorage(absl::StrCat("cub::BlockReduce<T, kThreads, cub::BLOCK_REDUCE_", how, ">"),
                     "const T sum = a.Sum(items);\n  if (threadIdx.x == 0) out[0] = sum;"),
         Sum});
  }
  algorithms.push_back(
      {"BlockReduce maximum", "cub/block/block_reduce.cuh",
       absl::StrCat(
           "  struct Larger {\n    __device__ T operator()(T x, T y) const { return x < y ? y "
           ": x; }\n  };\n",
           WithStorage("cub::BlockReduce<T, kThreads>",
                       "const T most = a.Reduce(items, Larger());\n"
                       "  if (threadIdx.x == 0) out[0] = most;")),
       Maximum});
  for (const char* how : {"RAKING", "RAKING_MEMOIZE", "WARP_SCANS"}) {
    algorithms.push_back(
        {absl::StrCat("BlockScan ", how), "cub/block/block_scan.cuh",
         WithStorage(absl::StrCat("cub::BlockScan<T, kThreads, cub::BLOCK_SCAN_", how, ">"),
                     absl::StrCat("a.InclusiveSum(items, items);\n", kStoreItems)),
         InclusiveSum});
  }
  algorithms.push_back({"BlockScan exclusive", "cub/block/block_scan.cuh",
                        WithStorage("cub::BlockScan<T, kThreads>",
                                    absl::StrCat("a.ExclusiveSum(items, items);\n", kStoreItems)),
                        ExclusiveSum});
  algorithms.push_back({"BlockRadixSort", "cub/block/block_radix_sort.cuh",
                        WithStorage("cub::BlockRadixSort<T, kThreads, kItems>",
                                    absl::StrCat("a.Sort(items);\n", kStoreItems)),
                        Sorted});
  algorithms.push_back({"BlockRadixSort descending", "cub/block/block_radix_sort.cuh",
                        WithStorage("cub::BlockRadixSort<T, kThreads, kItems>",
                                    absl::StrCat("a.SortDescending(items);\n", kStoreItems)),
                        SortedDescending});
  const std::string less =
      "  struct Less {\n    __device__ bool operator()(T x, T y) const { return x < y; }\n  };\n";
  algorithms.push_back(
      {"BlockMergeSort", "cub/block/block_merge_sort.cuh",
       absl::StrCat(less, WithStorage("cub::BlockMergeSort<T, kThreads, kItems>",
                                      absl::StrCat("a.Sort(items, Less());\n", kStoreItems))),
       Sorted});
  for (const char* how : {"DIRECT", "STRIPED", "VECTORIZE", "TRANSPOSE", "WARP_TRANSPOSE"}) {
    algorithms.push_back(
        {absl::StrCat("BlockLoad/Store ", how),
         "cub/block/block_load.cuh>\n#include <cub/block/block_store.cuh",
         absl::StrCat("  using L = cub::BlockLoad<T, kThreads, kItems, cub::BLOCK_LOAD_", how,
                      ">;\n  using S = cub::BlockStore<T, kThreads, kItems, cub::BLOCK_STORE_", how,
                      ">;\n  __shared__ union { typename L::TempStorage load; typename "
                      "S::TempStorage store; } "
                      "storage;\n  L(storage.load).Load(in, items);\n  __syncthreads();\n"
                      "  S(storage.store).Store(out, items);\n"),
         Same});
  }
  algorithms.push_back(
      {"BlockExchange", "cub/block/block_exchange.cuh",
       WithStorage("cub::BlockExchange<T, kThreads, kItems>",
                   absl::StrCat("a.BlockedToStriped(items, items);\n", kStoreItems)),
       BlockStriped});
  for (const char* how : {"SORT", "ATOMIC"}) {
    algorithms.push_back(
        {absl::StrCat("BlockHistogram ", how), "cub/block/block_histogram.cuh",
         absl::StrCat("  __shared__ unsigned bins[16];\n",
                      WithStorage(absl::StrCat("cub::BlockHistogram<T, kThreads, kItems, 16, "
                                               "cub::BLOCK_HISTO_",
                                               how, ">"),
                                  "a.Histogram(items, bins);\n  __syncthreads();\n"
                                  "  if (threadIdx.x < 16) out[threadIdx.x] = bins[threadIdx.x];")),
         Histogram, /*only_integers=*/true});
  }
  algorithms.push_back(
      {"BlockDiscontinuity", "cub/block/block_discontinuity.cuh",
       absl::StrCat(
           "  struct Differs {\n    __device__ bool operator()(T x, T y) const { return x != y; "
           "}\n  };\n  int flags[kItems];\n",
           WithStorage("cub::BlockDiscontinuity<T, kThreads>",
                       "a.FlagHeads(flags, items, Differs());\n  for (int i = 0; i < kItems; "
                       "++i) out[threadIdx.x * kItems + i] = flags[i];")),
       Heads});
  algorithms.push_back(
      {"BlockAdjacentDifference", "cub/block/block_adjacent_difference.cuh",
       absl::StrCat(
           "  struct Minus {\n    __device__ T operator()(T x, T y) const { return x - y; }\n"
           "  };\n",
           WithStorage("cub::BlockAdjacentDifference<T, kThreads>",
                       absl::StrCat("a.SubtractLeft(items, items, Minus());\n", kStoreItems))),
       Differences});
  algorithms.push_back({"BlockShuffle", "cub/block/block_shuffle.cuh",
                        WithStorage("cub::BlockShuffle<T, kThreads>",
                                    "T next = items[0];\n  a.Offset(items[0], next, 1);\n"
                                    "  out[threadIdx.x] = next;"),
                        ShiftedByOne, false, /*one_item=*/true});
  algorithms.push_back(
      {"WarpReduce", "cub/warp/warp_reduce.cuh",
       WithWarpStorage("cub::WarpReduce<T>",
                       "const T sum = a.Sum(items[0]);\n  if (threadIdx.x % 32 == 0) "
                       "out[threadIdx.x / 32] = sum;"),
       EachWarp(Sum), false, /*one_item=*/true});
  algorithms.push_back(
      {"WarpScan", "cub/warp/warp_scan.cuh",
       WithWarpStorage("cub::WarpScan<T>",
                       absl::StrCat("a.InclusiveSum(items[0], items[0]);\n", kStoreItems)),
       EachWarp(InclusiveSum), false, /*one_item=*/true});
  algorithms.push_back(
      {"WarpExchange", "cub/warp/warp_exchange.cuh",
       WithWarpStorage("cub::WarpExchange<T, kItems>",
                       absl::StrCat("a.BlockedToStriped(items, items);\n", kStoreItems)),
       WarpStriped});
  algorithms.push_back(
      {"WarpMergeSort", "cub/warp/warp_merge_sort.cuh",
       absl::StrCat(less, WithWarpStorage("cub::WarpMergeSort<T, kItems>",
                                          absl::StrCat("a.Sort(items, Less());\n", kStoreItems))),
       EachWarp(Sorted)});
  algorithms.push_back(
      {"cuda::atomic_ref", "cuda/atomic",
       "  __shared__ T sum;\n  if (threadIdx.x == 0) sum = 0;\n  __syncthreads();\n"
       "  cuda::atomic_ref<T, cuda::thread_scope_block> total(sum);\n"
       "  for (int i = 0; i < kItems; ++i) total.fetch_add(items[i], "
       "cuda::std::memory_order_relaxed);\n"
       "  __syncthreads();\n  if (threadIdx.x == 0) out[0] = sum;\n",
       Sum});
  return algorithms;
}

std::string Source(const Algorithm& algorithm, const std::string& type, const Shape& shape) {
  return absl::StrCat(
      "#include <", algorithm.header, ">\n\nusing T = ", type,
      ";\nconstexpr int kThreads = ", shape.threads, ";\nconstexpr int kItems = ", shape.items,
      ";\n\nextern \"C\" __global__ void __launch_bounds__(kThreads) run(const T* in, "
      "T* out) {\n  T items[kItems];\n  for (int i = 0; i < kItems; ++i) items[i] = "
      "in[threadIdx.x * kItems + i];\n",
      algorithm.body, "}\n");
}

template <typename T>
std::string BytesAs(const Values& values) {
  std::string bytes;
  for (const int64_t value : values) {
    const T converted = static_cast<T>(value);
    bytes.append(reinterpret_cast<const char*>(&converted), sizeof(converted));
  }
  return bytes;
}

struct Type {
  const char* name;
  bool is_integer;
  std::string (*bytes)(const Values&);
};

}  // namespace

std::vector<CubProgram> CubPrograms() {
  const Type types[] = {{"int", true, BytesAs<int>},
                        {"float", false, BytesAs<float>},
                        {"unsigned char", true, BytesAs<unsigned char>},
                        {"double", false, BytesAs<double>},
                        {"long long", true, BytesAs<long long>}};
  const Shape shapes[] = {{64, 1}, {128, 4}, {256, 8}};
  constexpr size_t kInstances = 3;  // of each algorithm
  std::vector<CubProgram> programs;
  size_t turn = 0;  // every algorithm starts with another type, so that all meet
  for (const Algorithm& algorithm : Algorithms()) {
    for (size_t instance = 0; instance < kInstances; ++instance) {
      const Type* type = &types[(turn + instance) % std::size(types)];
      while (algorithm.only_integers && !type->is_integer) {
        type = &types[(static_cast<size_t>(type - types) + 1) % std::size(types)];
      }
      Shape shape = shapes[instance];
      if (algorithm.one_item) shape.items = 1;
      Values in(shape.count());
      uint32_t state = 12345;
      for (int64_t& value : in) value = (state = state * 1664525 + 1013904223) >> 28;
      CubProgram program;
      program.name =
          absl::StrCat(algorithm.name, " of ", type->name, ", ", shape.threads, " x ", shape.items);
      program.source = Source(algorithm, type->name, shape);
      program.threads = shape.threads;
      program.input = type->bytes(in);
      program.expected = type->bytes(algorithm.expected(in, shape));
      programs.push_back(std::move(program));
    }
    turn += 2;
  }
  return programs;
}

}  // namespace kcache::corpus
