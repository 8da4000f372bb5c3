// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 against the vectors of FIPS 180 and against OpenSSL, for each implementation that this CPU has:
// every length around the block and padding edges, and random splits of a message into updates.
#include "base/sha256.h"

#include <gtest/gtest.h>
#if defined(KVC_TEST_OPENSSL)
#include <openssl/evp.h>
#endif

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/position_digest.h"

namespace kvc {
namespace {

std::string hex(const Digest256& digest) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : digest.bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

#if defined(KVC_TEST_OPENSSL)
Digest256 openssl_digest(const void* data, size_t size) {
  Digest256 digest{};
  unsigned length = 0;
  EXPECT_EQ(EVP_Digest(data, size, digest.bytes, &length, EVP_sha256(), nullptr), 1);
  EXPECT_EQ(length, sizeof digest.bytes);
  return digest;
}

std::vector<uint8_t> random_bytes(std::mt19937_64& random, size_t size) {
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}
#endif

class Sha256Test : public testing::TestWithParam<Sha256Path> {
 protected:
  void SetUp() override {
    if (!Sha256::supports(GetParam())) GTEST_SKIP() << "this CPU has no SHA-256 instructions";
  }
  Digest256 digest_of(const void* data, size_t size) const {
    Sha256 hash(GetParam());
    hash.update(data, size);
    return hash.finish();
  }
  Digest256 digest_of(const std::string& text) const { return digest_of(text.data(), text.size()); }
};

TEST_P(Sha256Test, EmptyMessage) {
  EXPECT_EQ(hex(digest_of(nullptr, 0)), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_P(Sha256Test, OneBlockMessageOfTheStandard) {
  EXPECT_EQ(hex(digest_of("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_P(Sha256Test, TwoBlockMessageOfTheStandard) {
  EXPECT_EQ(hex(digest_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST_P(Sha256Test, LongMessageOfTheStandard) {
  EXPECT_EQ(hex(digest_of(std::string(1000000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

#if defined(KVC_TEST_OPENSSL)  // else there is no second opinion

TEST_P(Sha256Test, EveryLengthUpTo300AgreesWithOpenssl) {
  std::mt19937_64 random(1);
  for (size_t size = 0; size <= 300; ++size) {
    const std::vector<uint8_t> message = random_bytes(random, size);
    ASSERT_EQ(hex(digest_of(message.data(), size)), hex(openssl_digest(message.data(), size)))
        << size << " bytes";
  }
}

TEST_P(Sha256Test, RandomSplitsAgreeWithOpenssl) {
  std::mt19937_64 random(2);
  Sha256 hash(GetParam());  // one object for all messages: finish() must leave it empty
  for (int round = 0; round < 3000; ++round) {
    const std::vector<uint8_t> message = random_bytes(random, random() % 301);
    size_t done = 0;
    while (done < message.size()) {
      const size_t part = random() % (message.size() - done + 1);  // 0 is a legal update, too
      hash.update(message.data() + done, part);
      done += part;
    }
    ASSERT_EQ(hex(hash.finish()), hex(openssl_digest(message.data(), message.size()))) << "round " << round;
  }
}

TEST_P(Sha256Test, UnalignedInputAgreesWithOpenssl) {
  std::mt19937_64 random(3);
  const std::vector<uint8_t> bytes = random_bytes(random, 64 + 256);
  for (size_t offset = 0; offset < 64; ++offset) {
    ASSERT_EQ(hex(digest_of(bytes.data() + offset, 256)), hex(openssl_digest(bytes.data() + offset, 256)));
  }
}

#endif

// The digests of a chain, computed beside each other, are those of the messages one by one. Each position has
// a parent of its own: any of those before it.
TEST_P(Sha256Test, PositionsAreHashedAsOneByOne) {
  std::mt19937_64 random(5);
  for (const uint32_t block_size : {1u, 2u, 5u, 8u, 15u, 16u, 17u, 24u, 32u, 64u, 100u}) {
    constexpr size_t kPositions = 9;
    std::vector<int32_t> tokens(kPositions * block_size);
    for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 200000);
    PositionDigests digests(block_size, tokens.data(), GetParam());
    std::vector<Digest256> all = {digest_of("root")};
    for (size_t i = 0; i < kPositions; ++i) {
      const Digest256 parent = all[i % 3 == 2 ? random() % all.size() : i];
      const Digest256 extra = random() % 3 == 0 ? digest_of("image") : Digest256{};
      const int32_t* own = tokens.data() + i * block_size;
      std::string message(reinterpret_cast<const char*>(own), block_size * sizeof *own);
      message.append(reinterpret_cast<const char*>(parent.bytes), sizeof parent.bytes);
      if (extra != Digest256{})
        message.append(reinterpret_cast<const char*>(extra.bytes), sizeof extra.bytes);
      const uint32_t end = block_size + (extra == Digest256{} ? 0 : 1u << 31);
      message.append(reinterpret_cast<const char*>(&end), sizeof end);
      all.push_back(digests.next(parent, extra, i + 1 == kPositions ? nullptr : own + block_size));
      ASSERT_EQ(hex(all.back()), hex(digest_of(message))) << block_size << " tokens, position " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, Sha256Test, testing::Values(Sha256Path::kScalar, Sha256Path::kInstructions),
                         [](const auto& path) {
                           return path.param == Sha256Path::kScalar ? "Scalar" : "Instructions";
                         });

#if defined(KVC_TEST_OPENSSL)
TEST(Sha256Length, IsCountedAbove32Bits) {
  // 512 MiB + 1 byte: the length in bits needs more than 32 bits.
  std::vector<uint8_t> part(1 << 20, 0x5a);
  Sha256 hash;  // padding is the same for all paths
  EVP_MD_CTX* expected = EVP_MD_CTX_new();
  ASSERT_EQ(EVP_DigestInit_ex(expected, EVP_sha256(), nullptr), 1);
  for (int i = 0; i < 512; ++i) {
    hash.update(part.data(), part.size());
    ASSERT_EQ(EVP_DigestUpdate(expected, part.data(), part.size()), 1);
  }
  hash.update(part.data(), 1);
  ASSERT_EQ(EVP_DigestUpdate(expected, part.data(), 1), 1);
  Digest256 digest{};
  ASSERT_EQ(EVP_DigestFinal_ex(expected, digest.bytes, nullptr), 1);
  EVP_MD_CTX_free(expected);
  EXPECT_EQ(hex(hash.finish()), hex(digest));
}
#endif

TEST(Sha256Dispatch, DefaultAgreesWithScalar) {
  std::mt19937_64 random(4);
  std::vector<uint8_t> message(1000);
  for (uint8_t& byte : message) byte = static_cast<uint8_t>(random());
  Sha256 fast, scalar(Sha256Path::kScalar);
  fast.update(message.data(), message.size());
  scalar.update(message.data(), message.size());
  EXPECT_EQ(fast.finish(), scalar.finish());
}

}  // namespace
}  // namespace kvc
