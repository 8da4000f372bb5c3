// SPDX-License-Identifier: Apache-2.0
// A storage whose work is done by threads of its user: the same bits as with threads of the library.
#include <atomic>
#include <cstring>
#include <thread>

#include "api/attention_scene.h"
#include "attention_call.h"

namespace {

using kvc::test::Scene;
using kvc::test::SceneOptions;

// A user's pool: jobs go to `threads` of them, or, with 1, all to the caller, last one first.
struct Pool {
  size_t threads;
  std::atomic<int> calls{0}, wrong{0};

  static void run(void* context, size_t count, void (*job)(void*, size_t, size_t), void* data) {
    Pool& pool = *static_cast<Pool*>(context);
    ++pool.calls;
    if (count < 2) ++pool.wrong;  // nothing to share: need not be asked
    if (pool.threads == 1) {
      for (size_t i = count; i-- > 0;) job(data, i, 0);
      return;
    }
    std::atomic<size_t> next{0};
    std::vector<std::thread> threads;
    for (size_t worker = 0; worker < pool.threads; ++worker)
      threads.emplace_back([&, worker] {
        for (size_t i; (i = next++) < count;) job(data, i, worker);
      });
    for (std::thread& thread : threads) thread.join();
  }
};

SceneOptions options_for(int32_t dtype, uint32_t workers, Pool* pool) {
  SceneOptions o{.dtype = dtype, .threads = workers, .lens = {1200, 64, 90}, .queries = {1, 5, 20}};
  if (pool != nullptr) o.parallel_for = Pool::run, o.parallel_context = pool;
  return o;
}

std::vector<char> bytes_of(Scene& scene) {
  kvc_storage_info info = {};
  info.struct_size = sizeof info;
  EXPECT_EQ(kvc_storage_properties(scene.storage.get(), &info), KVC_OK);
  const char* data = static_cast<const char*>(info.data);
  return {data, data + info.slab_bytes};
}

TEST(ParallelFor, GivesTheBitsOfTheLibrarysThreads) {
  for (const int32_t dtype : {KVC_FLOAT32, KVC_BFLOAT16, KVC_INT8})
    for (const uint32_t workers : {2u, 5u}) {
      Scene own(options_for(dtype, workers, nullptr));
      own.attend();
      for (const size_t threads : {size_t{1}, size_t{2}, size_t{workers}}) {
        Pool pool{threads};
        Scene scene(options_for(dtype, workers, &pool));
        EXPECT_GT(pool.calls, 0) << "clearing and storing are shared";
        EXPECT_EQ(bytes_of(scene), bytes_of(own));
        const int before = pool.calls;
        scene.attend();
        EXPECT_GT(pool.calls, before);
        EXPECT_EQ(scene.out, own.out);
        EXPECT_EQ(scene.lse, own.lse);
        EXPECT_EQ(pool.wrong, 0);
      }
    }
}

TEST(ParallelFor, OneWorkerIsTheCaller) {
  Pool pool{1};
  Scene scene(options_for(KVC_FLOAT32, 1, &pool));
  scene.attend();
  EXPECT_EQ(pool.calls, 0);
}

TEST(ParallelFor, ThreadsOfTheUserMayCallAtOnce) {
  Pool pool{2};
  Scene scene(options_for(KVC_BFLOAT16, 2, &pool));
  scene.attend();
  std::vector<std::thread> threads;
  std::atomic<int> different{0};
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      AttentionCall a = scene.a;
      std::vector<float> out(scene.out.size()), lse(scene.lse.size());
      a.out = out.data(), a.lse = lse.data();
      for (int n = 0; n < 3; ++n)
        if (kvc_storage_attend(scene.storage.get(), &a, nullptr) != KVC_OK || out != scene.out) ++different;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(different, 0);
}

TEST(ParallelFor, WithoutANumberOfWorkersIsRefused) {
  kvc_storage_config c = {};
  c.struct_size = sizeof c;
  c.num_blocks = c.num_layers = c.num_heads = c.head_dim = 1;
  c.parallel_for = Pool::run;
  kvc_storage* s = nullptr;
  EXPECT_EQ(kvc_storage_create(&c, &s), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(s, nullptr);
  EXPECT_NE(std::strstr(kvc_last_error(), "num_threads"), nullptr) << kvc_last_error();
}

}  // namespace
