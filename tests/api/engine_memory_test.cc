// SPDX-License-Identifier: Apache-2.0
// Memory of devices as an engine has it: shared with other processes, growing, a part of what is free, pinned
// and registered. In test_api on emulated devices, in test_gpu_cuda and test_gpu_hip on a GPU.
#include <unistd.h>

#include <cstdio>

#include "api/emulated.h"
#include "api/engine.h"

namespace kvc::test {
namespace {

class EngineMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (engine::device() == nullptr) GTEST_SKIP() << "there is no device with graphs";
  }
};

// One token's rows, in memory that host and device see.
class Token {
 public:
  kvc_status store(kvc_storage* s, int64_t slot, float value) {
    std::fill_n(memory_.as<float>(), kHeads * kDim, value);
    const kvc_rows rows = rows_at(&slot);
    return kvc_storage_store(s, &rows, nullptr);
  }
  float key_at(kvc_storage* s, int64_t slot) {
    std::fill_n(memory_.as<float>(), kHeads * kDim, -1.0f);
    const kvc_rows rows = rows_at(&slot);
    EXPECT_EQ(kvc_storage_gather(s, &rows, nullptr), KVC_OK) << kvc_last_error();
    return memory_.as<float>()[0];
  }

 private:
  kvc_rows rows_at(const int64_t* slot) {
    kvc_rows rows = {};
    rows.struct_size = sizeof rows;
    rows.k = rows.v = memory_.data, rows.num_tokens = 1, rows.slots = slot;
    return rows;
  }
  DeviceMemory memory_{engine::device(), kHeads* kDim * sizeof(float), KVC_MEMORY_PINNED};
};

// The tests below hand their bytes to another process, this program with one test, in a variable.
constexpr char kHandleVariable[] = "KVC_TEST_MEMORY_HANDLE";

std::string handle_of_parent() {
  const char* text = std::getenv(kHandleVariable);
  std::string bytes;
  for (; text != nullptr && text[0] != 0 && text[1] != 0; text += 2)
    bytes += static_cast<char>(std::stoi(std::string(text, 2), nullptr, 16));
  return bytes;
}

// Runs a disabled test in a process of its own. Its exit status is 0 if the test passed.
int run_in_another_process(const std::string& test, const std::string& handle, std::string* output) {
  std::string text;
  for (const char byte : handle) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte));
    text += digits;
  }
  char self[4096] = {};
  EXPECT_GT(readlink("/proc/self/exe", self, sizeof self - 1), 0);
  const std::string command = std::string(kHandleVariable) + "=" + text + " '" + self +
                              "' --gtest_also_run_disabled_tests --gtest_filter=EngineMemory.*" + test +
                              " 2>&1";
  FILE* other = popen(command.c_str(), "r");
  if (other == nullptr) return -1;
  output->clear();
  for (char line[512]; std::fgets(line, sizeof line, other) != nullptr;) *output += line;
  return pclose(other);
}

// ---- whether memory can be shared here at all, which the library has no part in ----

constexpr char kReason[] = "the runtime says: ";

TEST_F(EngineMemory, DISABLED_OfTheParentIsOpenedByTheRuntime) {
  const std::string problem = engine::open_exported(handle_of_parent());
  EXPECT_EQ(problem, "");
  if (!problem.empty()) std::printf("%s%s\n", kReason, problem.c_str());
}

// Nothing, or why the runtime shares no memory between processes here: in a container without --ipc=host or
// CAP_SYS_PTRACE, in some virtual machines, on some devices.
std::string why_none_is_shared() {
  std::string handle, output;
  const std::string problem = engine::export_own(&handle);
  if (!problem.empty()) return problem;
  const int status = run_in_another_process("OfTheParentIsOpenedByTheRuntime", handle, &output);
  if (status == 0) return {};
  const size_t said = output.find(kReason);
  if (said == std::string::npos)
    return "the process that tried to open memory ended with status " + std::to_string(status);
  const size_t begin = said + sizeof kReason - 1;
  return output.substr(begin, output.find('\n', begin) - begin);
}

// ---- and that the library does it ----

TEST_F(EngineMemory, DISABLED_OfTheParentIsChanged) {
  kvc_memory_handle handle;
  const std::string bytes = handle_of_parent();
  ASSERT_EQ(bytes.size(), sizeof handle);
  std::memcpy(&handle, bytes.data(), sizeof handle);
  kvc_storage_config c = small_config(engine::device());
  ASSERT_EQ(kvc_device_import_memory(engine::device(), &handle, &c.memory), KVC_OK) << kvc_last_error();
  c.memory_size = handle.bytes;
  {
    const StoragePtr s = make(c);
    Token token;
    EXPECT_EQ(token.key_at(s.get(), 7), 42.0f);
    EXPECT_EQ(token.store(s.get(), 8, 43), KVC_OK) << kvc_last_error();
  }
  EXPECT_EQ(kvc_device_release(c.memory), KVC_OK);
}

TEST_F(EngineMemory, IsSharedWithAnotherProcess) {
  if (const std::string reason = why_none_is_shared(); !reason.empty())
    GTEST_SKIP() << "no memory can be shared between processes here: " << reason;
  kvc_storage_config c = small_config(engine::device());
  uint64_t bytes = 0;
  ASSERT_EQ(kvc_storage_size(&c, nullptr, &bytes), KVC_OK);
  // Two, of which the runtime may have both in one piece of its own.
  DeviceMemory other(engine::device(), bytes), memory(engine::device(), bytes);
  c.memory = memory.data, c.memory_size = bytes;
  const StoragePtr s = make(c);
  Token token;
  ASSERT_EQ(token.store(s.get(), 7, 42), KVC_OK) << kvc_last_error();
  kvc_memory_handle handle;
  ASSERT_EQ(kvc_device_export_memory(memory.data, &handle), KVC_OK) << kvc_last_error();
  EXPECT_EQ(handle.bytes, bytes);
  EXPECT_EQ(token.key_at(s.get(), 7), 42.0f);
  std::string output;
  const std::string sent(reinterpret_cast<const char*>(&handle), sizeof handle);
  EXPECT_EQ(run_in_another_process("OfTheParentIsChanged", sent, &output), 0) << output;
  EXPECT_EQ(token.key_at(s.get(), 8), 43.0f);
}

TEST_F(EngineMemory, GrowsUnderAStorage) {
  constexpr uint64_t kChunk = uint64_t{64} << 20;
  void* memory = nullptr;
  ASSERT_EQ(kvc_device_reserve_addresses(engine::device(), 3 * kChunk, &memory), KVC_OK) << kvc_last_error();
  kvc_storage_config c = small_config(engine::device());
  uint64_t block = 0;
  ASSERT_EQ(kvc_storage_size(&c, &block, nullptr), KVC_OK);
  c.layout = KVC_LAYOUT_BLHNC, c.memory = memory, c.memory_size = 3 * kChunk,
  c.num_blocks = 3 * kChunk / block;
  {
    const StoragePtr s = make(c);
    Token token;
    const auto far = static_cast<int64_t>(2 * kChunk / block * kBlock) + 5;
    ASSERT_EQ(kvc_device_map(memory, 0, 1), KVC_OK) << kvc_last_error();
    ASSERT_EQ(token.store(s.get(), 5, 1), KVC_OK) << kvc_last_error();
    ASSERT_EQ(kvc_device_map(memory, 2 * kChunk, kChunk), KVC_OK) << kvc_last_error();
    ASSERT_EQ(token.store(s.get(), far, 2), KVC_OK) << kvc_last_error();
    EXPECT_EQ(token.key_at(s.get(), 5), 1.0f);
    EXPECT_EQ(token.key_at(s.get(), far), 2.0f);
  }
  EXPECT_EQ(kvc_device_release(memory), KVC_OK) << kvc_last_error();
}

TEST_F(EngineMemory, APartOfWhatIsFreeBecomesBlocks) {
  kvc_storage_config c = small_config(engine::device());
  c.num_blocks = 0, c.memory_fraction = 0.01f;
  const StoragePtr s = make(c);
  ASSERT_NE(s, nullptr);
  const kvc_storage_info info = info_of(s.get());
  kvc_device_info device = {};
  device.struct_size = sizeof device;
  ASSERT_EQ(kvc_device_read_info(engine::device(), &device), KVC_OK) << kvc_last_error();
  EXPECT_GT(info.slab_bytes, device.free_bytes / 400) << "others may take and give memory meanwhile";
  EXPECT_LT(info.slab_bytes, device.memory_bytes / 50);
  Token token;
  const auto last = static_cast<int64_t>(info.num_blocks * kBlock) - 1;
  ASSERT_EQ(token.store(s.get(), last, 6), KVC_OK) << kvc_last_error();
  EXPECT_EQ(token.key_at(s.get(), last), 6.0f);
}

// Beginning and ending inside of pages, as memory of an engine may.
TEST_F(EngineMemory, ThatIsRegisteredHoldsRowsAndPages) {
  std::vector<char> memory(3 << 20);
  char* const begin = memory.data() + (16 - reinterpret_cast<uintptr_t>(memory.data()) % 16) + 160;
  const uint64_t size = memory.size() - 256;
  ASSERT_EQ(kvc_device_register(engine::device(), begin, size), KVC_OK) << kvc_last_error();
  {
    const StoragePtr s = make(small_config(engine::device()));
    Token token;
    ASSERT_EQ(token.store(s.get(), kBlock + 3, 9), KVC_OK) << kvc_last_error();
    const kvc_block_copy out = {1, 0}, in = {0, 4};
    ASSERT_EQ(kvc_storage_swap_out(s.get(), &out, 1, begin, size, 0, nullptr), KVC_OK) << kvc_last_error();
    ASSERT_EQ(kvc_storage_swap_in(s.get(), &in, 1, begin, size, 0, nullptr), KVC_OK) << kvc_last_error();
    EXPECT_EQ(token.key_at(s.get(), 4 * kBlock + 3), 9.0f);
  }
  EXPECT_EQ(kvc_device_unregister(engine::device(), begin), KVC_OK) << kvc_last_error();
}

}  // namespace
}  // namespace kvc::test
