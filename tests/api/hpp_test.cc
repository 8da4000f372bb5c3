// SPDX-License-Identifier: Apache-2.0
//
// kvcache.hpp: owners give back exactly once, moves leave an empty handle, errors carry status and text, lack
// of space is an answer, spans take what engines have, and a step works through its typed arrays.
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <optional>
#include <vector>

#include "kvcache.hpp"

namespace {

static_assert(!std::is_copy_constructible_v<kvc::Manager> &&
              std::is_nothrow_move_constructible_v<kvc::Manager>);
static_assert(!std::is_copy_constructible_v<kvc::Request> &&
              std::is_nothrow_move_constructible_v<kvc::Request>);
static_assert(!std::is_copy_assignable_v<kvc::Request> && std::is_nothrow_move_assignable_v<kvc::Request>);
static_assert(!std::is_copy_constructible_v<kvc::Step> && std::is_nothrow_move_constructible_v<kvc::Step>);
static_assert(!std::is_convertible_v<std::vector<int64_t>, kvc::Tokens>);
static_assert(!std::is_convertible_v<const std::vector<int32_t>&, kvc::Span<int32_t>>);

std::vector<int32_t> numbers(int32_t first, size_t count) {
  std::vector<int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

template <class Function>
kvc_status status_of(Function&& function) {
  try {
    function();
  } catch (const kvc::Error& error) {
    return error.status();
  }
  return KVC_OK;
}

TEST(Hpp, AsksForScalarsToo) {
  EXPECT_EQ(kvc::ask<uint32_t>(kvc_dtype_bits, KVC_BFLOAT16), 16u);
  EXPECT_EQ(status_of([] { kvc::ask<uint32_t>(kvc_dtype_bits, 99); }), KVC_ERROR_INVALID_ARGUMENT);
}

TEST(Hpp, RequestFreesItselfAndStaysCached) {
  kvc::Manager m(8, 4);
  const std::vector<int32_t> prompt = numbers(0, 9);
  {
    kvc::Request r = m.allocate(prompt);
    ASSERT_TRUE(r);
    r.commit(9);
    EXPECT_EQ(m.stats().live_requests, 1u);
  }
  EXPECT_EQ(m.stats().live_requests, 0u);
  EXPECT_EQ(m.probe(prompt).num_cached, 8u);
  m.verify();
}

TEST(Hpp, MovedFromHandlesAreEmptyAndGiveNothingBack) {
  kvc::Manager m(8, 4);
  kvc::Request a = m.allocate(numbers(0, 5));
  const uint64_t id = a.id();
  kvc::Request b = std::move(a);
  EXPECT_FALSE(a);
  EXPECT_EQ(a.id(), 0u);
  EXPECT_EQ(b.id(), id);
  kvc::Request& same = b;
  b = std::move(same);
  EXPECT_EQ(b.id(), id);
  kvc::Request other = m.allocate(numbers(100, 5));
  other = std::move(b);  // frees what it held
  EXPECT_EQ(other.id(), id);
  EXPECT_EQ(m.stats().live_requests, 1u);
  const uint64_t kept = other.release();
  EXPECT_FALSE(other);
  EXPECT_EQ(m.stats().live_requests, 1u);
  kvc::Request adopted(m.get(), kept);
  adopted.reset();
  adopted.reset();
  EXPECT_EQ(m.stats().live_requests, 0u);
}

TEST(Hpp, ManagerMovesWhileRequestsExist) {
  std::optional<kvc::Manager> first(std::in_place, 8, 4);
  kvc::Request r = first->allocate(numbers(0, 5));
  kvc::Manager second = std::move(*first);
  first.reset();
  r.commit(5);
  EXPECT_EQ(r.info().num_committed, 5u);
  r.reset();
  second = kvc::Manager(16);
  EXPECT_EQ(second.properties().num_blocks, 16u);
  EXPECT_EQ(second.properties().block_size, 16u);
}

TEST(Hpp, ErrorsCarryStatusAndText) {
  kvc::Manager m(8, 4);
  kvc::Request r = m.allocate(numbers(0, 5));
  try {
    r.commit(6);
    FAIL() << "committing more than is known must throw";
  } catch (const kvc::Error& error) {
    EXPECT_EQ(error.status(), KVC_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(error.what()).find("KVC_ERROR_INVALID_ARGUMENT"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("6"), std::string::npos);
  }
  EXPECT_EQ(status_of([] { kvc::Manager none(0); }), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(status_of([&] { m.pool(1); }), KVC_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(status_of([&] { m.pin(numbers(7, 8)); }), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(status_of([&] { kvc::Request(m.get(), 0).commit(1); }), KVC_ERROR_NOT_FOUND);
  EXPECT_EQ(status_of([&] { r.truncate(6); }), KVC_ERROR_INVALID_ARGUMENT);
}

TEST(Hpp, LackOfSpaceIsAnAnswer) {
  kvc::Manager m(4, 4);
  kvc::Request r = m.allocate(numbers(0, 12));
  ASSERT_TRUE(r);
  EXPECT_FALSE(m.allocate(numbers(50, 8)));
  EXPECT_FALSE(r.reserve(17));
  EXPECT_FALSE(r.reserve(17).again());
  EXPECT_TRUE(r.reserve(16));
  EXPECT_FALSE(r.append(numbers(1, 5)));
  EXPECT_EQ(r.info().num_tokens, 12u);
  EXPECT_TRUE(r.append(numbers(1, 4)));
  EXPECT_EQ(status_of([&] { (void)r.append(std::vector<int32_t>{-1}); }), KVC_ERROR_INVALID_ARGUMENT);
  kvc::Request waiting = m.create(numbers(50, 4));
  EXPECT_EQ(waiting.probe().fits, 0u);
  EXPECT_FALSE(waiting.admit());
  EXPECT_FALSE(waiting.info().admitted);
  r.preempt();
  uint64_t cached = 77;
  EXPECT_TRUE(waiting.admit(&cached));
  EXPECT_EQ(cached, 0u);
}

TEST(Hpp, SpansTakeWhatEnginesHave) {
  kvc::Manager m(32, 4);
  const int32_t array[5] = {1, 2, 3, 4, 5};
  const std::array<int32_t, 5> standard = {1, 2, 3, 4, 5};
  std::vector<int32_t> vector = {1, 2, 3, 4, 5};
  kvc::Request first = m.allocate(array);
  first.commit(5);
  EXPECT_EQ(m.probe(array).num_cached, 4u);
  EXPECT_EQ(m.probe(standard).num_cached, 4u);
  EXPECT_EQ(m.probe(vector).num_cached, 4u);
  EXPECT_EQ(m.probe({vector.data(), 4}).num_cached, 0u);
  EXPECT_EQ(m.probe(kvc::Span<int32_t>(vector)).num_cached, 4u);
  EXPECT_EQ(m.probe({}).num_cached, 0u);
  int32_t sum = 0;
  for (const int32_t token : kvc::Tokens(array)) sum += token;
  EXPECT_EQ(sum, 15);
}

TEST(Hpp, ARefusalSaysWhetherItIsForGood) {
  kvc::Manager m(4, 4);
  const kvc::Request one = m.allocate(numbers(0, 1));
  kvc::Request waits = m.create(numbers(0, 16)), never = m.create(numbers(0, 17));
  EXPECT_FALSE(waits.admit());
  EXPECT_FALSE(waits.admit().never_fits());
  EXPECT_FALSE(never.admit());
  EXPECT_TRUE(never.admit().never_fits());
}

TEST(Hpp, TablesHaveACommonPrefix) {
  kvc::Manager m(16, 4);
  kvc::Request a = m.allocate(numbers(0, 12));
  a.commit(12);
  const kvc::Request b = m.allocate(numbers(0, 10));
  const uint64_t both[]{a.id(), b.id()};
  EXPECT_EQ(m.common_prefix(both), 2u);
  EXPECT_EQ(m.common_prefix({}), 0u);
}

TEST(Hpp, NamespacesPinsAndDrops) {
  kvc::Manager m(16, 4);
  auto identity = kvc::make<kvc_namespace_config>();
  identity.tenant = "x";
  identity.tenant_size = 1;
  const std::vector<int32_t> prompt = numbers(0, 9);
  kvc::Namespace ns = m.open_namespace(identity);
  const kvc::Prompt inside(prompt, {}, ns.id());
  {
    kvc::Request r = m.allocate(inside);
    r.commit(9);
  }
  EXPECT_EQ(m.probe(prompt).num_cached, 0u);
  EXPECT_EQ(m.probe(inside).num_cached, 8u);
  uint64_t pinned = 0;
  {
    const kvc::Pin pin = m.pin(inside, &pinned);
    EXPECT_EQ(pinned, 8u);
    EXPECT_EQ(m.pool().pinned, 2u);
    EXPECT_EQ(m.evict(100), 0u);
    EXPECT_EQ(m.drop(inside), 0u);
  }
  EXPECT_EQ(m.pool().pinned, 0u);
  EXPECT_EQ(m.drop(inside), 2u);
  const uint64_t id = ns.id();
  ns.reset();
  EXPECT_EQ(status_of([&] { m.reset_namespace(id); }), KVC_ERROR_NOT_FOUND);
  m.reset_all();
  m.verify();
}

TEST(Hpp, ExtraKeysTellEqualTokensApart) {
  kvc::Manager m(16, 4);
  kvc_extra_key image{};
  image.first_token = 1;
  image.num_tokens = 2;
  const std::vector<kvc_extra_key> keys = {image};
  const std::vector<int32_t> prompt = numbers(0, 5);
  kvc::Request r = m.allocate({prompt, keys});
  r.commit(5);
  EXPECT_EQ(m.probe(prompt).num_cached, 0u);
  EXPECT_EQ(m.probe({prompt, keys}).num_cached, 4u);
}

TEST(Hpp, StepThroughTypedArrays) {
  kvc::Manager m(16, 4);
  auto limits = kvc::make<kvc_step_limits>();
  limits.max_frees = limits.max_requests = limits.max_admissions = 2;
  limits.max_tokens = 8;
  limits.max_prompt_tokens = 32;
  limits.max_rows = 3;
  limits.row_stride = 4;
  kvc::Step made(m, limits);
  kvc::Step step = std::move(made);
  const std::vector<int32_t> prompt = numbers(0, 6);
  std::copy(prompt.begin(), prompt.end(), step.array<int32_t>(KVC_STEP_ADMIT_TOKENS).begin());
  step.array<uint64_t>(KVC_STEP_ADMIT_OFFSETS)[1] = prompt.size();
  step.array<int32_t>(KVC_STEP_ROWS)[0] = 2;
  step->num_admissions = 1;
  step.run();
  ASSERT_EQ(step.status().size(), 1u);
  EXPECT_EQ(step.status()[0], KVC_OK);
  kvc::Request r(m.get(), step.array<uint64_t>(KVC_STEP_ADMITTED)[0]);  // from now on owned
  EXPECT_EQ(step.row(2)[0], 0);
  EXPECT_EQ(step.row(2)[1], 1);
  EXPECT_EQ(step.row(2)[2], -1);
  EXPECT_EQ(step.row(0)[0], -1);
  EXPECT_EQ(step.array<int32_t>(KVC_STEP_BLOCK_TABLES).size(), 12u);
  EXPECT_EQ(step.array<int64_t>(KVC_STEP_SLOTS).size(), 8u);
  EXPECT_THROW(step.array<int32_t>(KVC_STEP_SLOTS), std::invalid_argument);
  EXPECT_THROW(step.array<uint64_t>(KVC_STEP_ROWS), std::invalid_argument);
  EXPECT_THROW(step.array<int64_t>(KVC_STEP_REQUESTS), std::invalid_argument);
  EXPECT_EQ(status_of([&] { step.array<int32_t>(99); }), KVC_ERROR_INVALID_ARGUMENT);

  step->num_admissions = 0;
  step->num_requests = 1;
  step->retired_step = step->step_id;
  step.array<uint64_t>(KVC_STEP_REQUESTS)[0] = r.id();
  step.array<uint64_t>(KVC_STEP_COMMITTED)[0] = 6;
  step.array<uint64_t>(KVC_STEP_EXTEND_OFFSETS)[1] = 1;
  step.array<int32_t>(KVC_STEP_EXTEND_TOKENS)[0] = 500;
  step.run();
  EXPECT_EQ(step.status()[0], KVC_OK);
  EXPECT_EQ(step.array<int64_t>(KVC_STEP_SLOTS)[0], 6);
  step->retired_step = 99;
  EXPECT_EQ(status_of([&] { step.run(); }), KVC_ERROR_INVALID_ARGUMENT);
}

TEST(Hpp, CurvesWorkloadsAndSizers) {
  kvc::Manager m(64, 4);
  auto config = kvc::make<kvc_curve_config>();
  config.sample_rate = 1;
  m.open_curve(KVC_ALL_NAMESPACES, config);
  EXPECT_EQ(status_of([&] { m.open_curve(); }), KVC_ERROR_BUSY);
  for (int i = 0; i < 2; ++i) {
    kvc::Request r = m.allocate(numbers(0, 17));
    r.commit(17);
  }
  const std::array<uint64_t, 2> sizes = {2, 4};
  std::array<double, 2> rates = {};
  m.hit_rates(sizes, rates);
  EXPECT_EQ(rates[0], 0.25);
  EXPECT_EQ(rates[1], 0.5);
  EXPECT_EQ(m.curve().queries, 8);
  EXPECT_THROW(m.hit_rates(sizes, kvc::Span<double>(rates.data(), 1)), std::invalid_argument);
  m.close_curve();

  kvc::Workload workload;
  workload.record(1000000000, 5);
  workload.record(2000000000, 7);
  EXPECT_EQ(workload.predict(1000000000), 9);
  EXPECT_EQ(workload.read().num_observations, 2u);
  EXPECT_EQ(status_of([&] { workload.record(1, 1); }), KVC_ERROR_INVALID_ARGUMENT);

  auto limits = kvc::make<kvc_sizer_config>();
  limits.max_blocks = 50;
  kvc::Sizer sizer(limits);
  EXPECT_EQ(sizer.decide(1, 70).to_blocks, 50u);
  EXPECT_EQ(sizer.read_log(0).reason, static_cast<uint32_t>(KVC_SIZING_LIMIT));
  EXPECT_EQ(status_of([&] { sizer.read_log(1); }), KVC_ERROR_NOT_FOUND);
}

TEST(Hpp, ABudgetSizesAManager) {
  auto model = kvc::make<kvc_model>();
  kvc::check(kvc_model_find("llama-3.1-8b", &model));
  auto memory = kvc::make<kvc_memory_query>();
  memory.model = &model, memory.dtype = KVC_BFLOAT16, memory.budget_bytes = uint64_t{8} << 30;
  const kvc::Manager m(memory);
  EXPECT_EQ(m.pool().num_blocks, 4096u);
}

}  // namespace
