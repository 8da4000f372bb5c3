// SPDX-License-Identifier: Apache-2.0
// Conformance group B: equal tokens with another identity (salt, adapter, model, image) never share; with the
// same, they do.
#include "conformance/fixture.h"

namespace conformance {
namespace {

uint64_t store_in(Cache& c, uint64_t ns, const Tokens& tokens) {
  return c.store(tokens, request_config(0, ns));
}

TEST(Keys, SaltsSeparateEqualTokens) {  // C13
  Cache c(shape(20));
  const Tokens tokens = text(1, 50);
  const uint64_t salt1 = c.open(nullptr, nullptr, "salt1"), salt2 = c.open(nullptr, nullptr, "salt2");
  store_in(c, salt1, tokens);
  EXPECT_EQ(c.hit(tokens, salt1), 48u);
  EXPECT_EQ(c.hit(tokens, salt2), 0u);
  EXPECT_EQ(c.hit(tokens, 0), 0u);
  EXPECT_EQ(store_in(c, salt1, tokens), 48u);
  EXPECT_EQ(store_in(c, salt2, tokens), 0u);
}

TEST(Keys, AbsentEmptyAndNamedAreDifferentNamespaces) {  // C14
  Cache c(shape(40));
  const Tokens tokens = text(1, 50);
  const uint64_t empty = c.open(nullptr, nullptr, ""), k1 = c.open(nullptr, nullptr, "k1"),
                 k2 = c.open(nullptr, nullptr, "k2");
  EXPECT_NE(empty, 0u);
  EXPECT_NE(empty, k1);
  EXPECT_NE(k1, k2);
  EXPECT_EQ(c.open(nullptr), 0u);
  for (uint64_t ns : {uint64_t{0}, empty, k1}) EXPECT_EQ(store_in(c, ns, tokens), 0u);
  Ids seen;
  for (uint64_t ns : {uint64_t{0}, empty, k1}) {
    EXPECT_EQ(c.hit(tokens, ns), 48u);
    for (int32_t block : c.acquire_prefix(tokens, 0, ns)) {
      for (int32_t other : seen) EXPECT_NE(block, other);
      seen.push_back(block);
    }
  }
  EXPECT_EQ(seen.size(), 9u);
  EXPECT_EQ(c.hit(tokens, k2), 0u);
}

TEST(Keys, EqualBytesUnderAnotherTagAreAnotherIdentity) {  // C15
  Cache c(shape(40));
  const Tokens tokens = text(1, 50);
  const uint64_t spaces[] = {c.open(nullptr, "X", nullptr), c.open(nullptr, nullptr, "X"),
                             c.open("X", nullptr, nullptr)};
  for (uint64_t writer : spaces) {
    store_in(c, writer, tokens);
    for (uint64_t reader : spaces) EXPECT_EQ(c.hit(tokens, reader), reader == writer ? 48u : 0u);
    c.reset_namespace(writer);
  }
  // Parts are framed by length: the same bytes cut elsewhere are another identity.
  const uint64_t ab_c = c.open("ab", "c"), a_bc = c.open("a", "bc");
  store_in(c, ab_c, tokens);
  EXPECT_EQ(c.hit(tokens, ab_c), 48u);
  EXPECT_EQ(c.hit(tokens, a_bc), 0u);
}

TEST(Keys, TheSameIdentityOpenedTwiceIsOneNamespaceUntilTheLastClose) {
  Cache c(shape(20));
  const Tokens tokens = text(1, 50);
  const uint64_t ns = c.open("m", "a", "t");
  EXPECT_EQ(c.open("m", "a", "t"), ns);
  store_in(c, ns, tokens);
  EXPECT_EQ(kvc_manager_close_namespace(c.get(), ns), KVC_OK);
  EXPECT_EQ(c.hit(tokens, ns), 48u);
  const Admitted r = c.allocate(tokens, request_config(0, ns));
  EXPECT_REFUSED(c, KVC_ERROR_BUSY, kvc_manager_close_namespace(c.get(), ns));
  c.free(r.id);
  EXPECT_EQ(kvc_manager_close_namespace(c.get(), ns), KVC_OK);
  EXPECT_REFUSED(c, KVC_ERROR_NOT_FOUND, kvc_manager_close_namespace(c.get(), ns));
  Admitted stale;
  EXPECT_REFUSED(c, KVC_ERROR_NOT_FOUND, c.try_allocate(tokens, &stale, request_config(0, ns)));
  const uint64_t again = c.open("m", "a", "t");
  EXPECT_NE(again, ns);
  EXPECT_EQ(c.hit(tokens, again), 0u);
  EXPECT_EQ(c.available(), 20u);
  EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, kvc_manager_close_namespace(c.get(), 0));
}

TEST(Keys, ImagesAreIdentifiedByDigestLengthAndOffset) {  // C16
  const uint32_t block = 16;
  Cache c(shape(60, block));
  const Tokens tokens(80, 7);  // placeholders all over
  const Keys at20 = {span(20, 8, 1)};
  EXPECT_EQ(c.store(tokens, request_config(), at20), 0u);
  EXPECT_EQ(c.hit(tokens, 0, at20), 64u);
  EXPECT_EQ(c.hit(tokens, 0, {span(20, 8, 2)}), 16u);  // another image
  EXPECT_EQ(c.hit(tokens, 0, {span(21, 8, 1)}), 16u);  // at another place
  EXPECT_EQ(c.hit(tokens, 0, {span(20, 9, 1)}), 16u);  // of another length
  EXPECT_EQ(c.hit(tokens), 16u);                       // none
  EXPECT_EQ(c.hit(tokens, 0, {span(20, 8, 1), span(60, 4, 9)}), 48u);
  for (int byte = 0; byte < 32; ++byte) {  // every byte of the digest counts
    Keys keys = at20;
    keys[0].digest[byte] ^= 0x80;
    EXPECT_EQ(c.hit(tokens, 0, keys), 16u) << byte;
  }
}

TEST(Keys, AHitNeverEndsInsideASpan) {  // C17
  Cache c(shape(60, B));
  const Tokens tokens(40, 7);
  const Keys keys = {span(6, 12, 1), span(24, 4, 2)};  // [6, 18) and the whole block [24, 28)
  const Admitted r = c.allocate(tokens, request_config(), keys);
  const struct {
    uint64_t committed, hit;
  } cases[] = {{4, 4}, {8, 4}, {12, 4}, {16, 4}, {20, 20}, {24, 24}, {28, 28}, {40, 36}};
  for (const auto& step : cases) {
    c.commit(r.id, step.committed);
    EXPECT_EQ(c.hit(tokens, 0, keys), step.hit) << step.committed;
  }
  // Text between the images carries no digest of them, but what comes before decides.
  EXPECT_EQ(c.hit(tokens, 0, {span(6, 12, 1)}), 24u);
  EXPECT_EQ(c.hit(tokens, 0, {span(6, 12, 1), span(24, 4, 3)}), 24u);
  EXPECT_EQ(c.hit(tokens, 0, {span(6, 12, 3), span(24, 4, 2)}), 4u);
  // The request's own bound is cut back in the same way.
  RequestOptions bounded = request_config();
  bounded.max_cached_tokens = 17;
  EXPECT_EQ(c.allocate(tokens, bounded, keys).cached, 4u);
}

TEST(Keys, EmptyKeysAndThoseOutsideAreRefused) {
  Cache c(shape(20));
  const Tokens tokens(40, 7);
  for (const Keys& keys : {Keys{span(38, 4, 1)}, Keys{span(10, 0, 1)}, Keys{span(~uint64_t{0}, 2, 1)}}) {
    Admitted r{77, 77};
    EXPECT_REFUSED(c, KVC_ERROR_INVALID_ARGUMENT, c.try_allocate(tokens, &r, request_config(), keys));
    EXPECT_EQ(r.id, 77u);
  }
  EXPECT_EQ(c.allocate(tokens, request_config(), {span(10, 4, 1), span(14, 26, 1)}).cached, 0u);
}

}  // namespace
}  // namespace conformance
