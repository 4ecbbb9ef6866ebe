// SPDX-License-Identifier: MIT
// Tests of GgufFile: malformed headers give one-line errors, never an abort.
#include "tensor/gguf_file.h"

#include "tensor/test_gguf.h"

namespace kvase {
namespace {

using test::expect_error;
using test::RawGguf;
using test::TempDir;

void expect_refused(const RawGguf& file, const std::string& part) {
  const TempDir dir;
  const std::string path = dir.file("bad.gguf");
  test::write_bytes(path, file.bytes());
  expect_error([&] { const GgufFile loaded(path); }, ErrorCode::bad_model_file, part);
  expect_error([&] { const GgufFile loaded(path); }, ErrorCode::bad_model_file, path);
}

TEST(GgufFile, MissingFileIsAnInvalidArgument) {
  const TempDir dir;
  expect_error([&] { const GgufFile file(dir.file("none.gguf")); }, ErrorCode::invalid_argument,
               "No such file");
}

TEST(GgufFile, DirectoryIsAnInvalidArgument) {
  const TempDir dir;
  expect_error([&] { const GgufFile file(dir.file("")); }, ErrorCode::invalid_argument, "found a directory");
}

TEST(GgufFile, DeviceIsAnInvalidArgument) {
  expect_error([] { const GgufFile file("/dev/zero"); }, ErrorCode::invalid_argument, "found a special file");
}

TEST(GgufFile, EmptyFile) { expect_refused(RawGguf(), "truncated in the magic bytes"); }

TEST(GgufFile, OtherMagic) { expect_refused(RawGguf().raw("GGML").pad(100), "found first bytes \"GGML\""); }

TEST(GgufFile, ControlBytesDoNotReachTheMessage) {
  expect_refused(RawGguf().raw("\n\x1b\xff\x01").pad(8), "\"????\"");
}

TEST(GgufFile, OtherVersions) {
  expect_refused(RawGguf().header(0, 0, 1), "version: found 1, allowed 2 or 3");
  expect_refused(RawGguf().header(0, 0, 4), "version: found 4");
  expect_refused(RawGguf().header(0, 0, 0x03000000), "version: found 50331648");
}

TEST(GgufFile, CountsBeyondTheFile) {
  expect_refused(RawGguf().header(1000, 0).pad(64), "number of tensors: found 1000");
  expect_refused(RawGguf().header(0, UINT64_MAX).pad(64), "number of keys: found 18446744073709551615");
}

TEST(GgufFile, EmptyKey) {
  expect_refused(RawGguf().header(0, 1).u32_key("", 1).pad(32), "a key: found \"\"");
}

TEST(GgufFile, KeyWithControlCharacters) {
  expect_refused(RawGguf().header(0, 1).u32_key(std::string("a\0b", 3), 1), "a key: found \"a?b\"");
}

TEST(GgufFile, KeyLongerThanTheSpecificationAllows) {
  expect_refused(RawGguf().header(0, 1).u32_key(std::string(65536, 'k'), 1), "length of a key: found 65536");
}

TEST(GgufFile, RepeatedKey) {
  expect_refused(RawGguf().header(0, 2).u32_key("twice", 1).u32_key("twice", 2),
                 "key \"twice\" is there twice");
}

TEST(GgufFile, StringLongerThanTheFile) {
  const auto file = [](uint64_t length) {
    return RawGguf().header(0, 1).text("key").number<uint32_t>(GGUF_TYPE_STRING).number(length).pad(16);
  };
  expect_refused(file(17), "length of a string value: found 17, allowed 0..16");
  expect_refused(file(UINT64_MAX), "length of a string value: found 18446744073709551615");
}

TEST(GgufFile, ArrayOfAMillionStringsInASmallFile) {
  const RawGguf file = RawGguf()
                           .header(0, 1)
                           .text("key")
                           .number<uint32_t>(GGUF_TYPE_ARRAY)
                           .number<uint32_t>(GGUF_TYPE_STRING)
                           .number<uint64_t>(1000000)
                           .pad(64);
  expect_refused(file, "found an array of 1000000 elements, allowed 0..8");
}

TEST(GgufFile, ArrayWhoseBytesOverflow) {
  const RawGguf file = RawGguf()
                           .header(0, 1)
                           .text("key")
                           .number<uint32_t>(GGUF_TYPE_ARRAY)
                           .number<uint32_t>(GGUF_TYPE_UINT64)
                           .number<uint64_t>((uint64_t{1} << 61) + 1)
                           .pad(64);
  expect_refused(file, "found an array of 2305843009213693953 elements");
}

TEST(GgufFile, NestedArray) {
  const RawGguf file = RawGguf()
                           .header(0, 1)
                           .text("key")
                           .number<uint32_t>(GGUF_TYPE_ARRAY)
                           .number<uint32_t>(GGUF_TYPE_ARRAY)
                           .number<uint64_t>(1)
                           .pad(64);
  expect_refused(file, "found value type 9");
}

TEST(GgufFile, UnknownValueType) {
  expect_refused(RawGguf().header(0, 1).text("key").number<uint32_t>(13).pad(64),
                 "found value type 13, allowed 0..12");
}

TEST(GgufFile, BoolThatIsNeitherTrueNorFalse) {
  const RawGguf file =
      RawGguf().header(0, 1).text("key").number<uint32_t>(GGUF_TYPE_BOOL).number<uint8_t>(2).pad(16);
  expect_refused(file, "found bool 2, allowed 0 or 1");
}

TEST(GgufFile, BadAlignment) {
  const auto file = [](uint32_t alignment) {
    return RawGguf().header(0, 1).u32_key("general.alignment", alignment);
  };
  expect_refused(file(0), "general.alignment: found 0, allowed a power of two");
  expect_refused(file(33), "general.alignment: found 33");
  expect_refused(file(0x80000000), "general.alignment: found 2147483648");
  const RawGguf text =
      RawGguf().header(0, 1).text("general.alignment").number<uint32_t>(GGUF_TYPE_STRING).pad(16);
  expect_refused(text, "found value type 8, allowed u32");
}

TEST(GgufFile, ZeroDimension) {
  expect_refused(RawGguf().header(1, 0).tensor("t", {1, 0}).pad(64),
                 "tensor \"t\": found dimension 1 of length 0");
  expect_refused(RawGguf().header(1, 0).tensor("t", {0}).pad(64), "found dimension 0 of length 0");
}

TEST(GgufFile, NumberOfDimensions) {
  expect_refused(RawGguf().header(1, 0).tensor("t", {}).pad(64), "found 0 dimensions, allowed 1..4");
  expect_refused(RawGguf().header(1, 0).tensor("t", std::vector<uint64_t>(9, 1)).pad(64),
                 "found 9 dimensions");
  const RawGguf million = RawGguf().header(1, 0).text("t").number<uint32_t>(1000000).pad(128);
  expect_refused(million, "found 1000000 dimensions");
}

TEST(GgufFile, ShapesThatOverflow) {
  const uint64_t huge = uint64_t{1} << 62;
  expect_refused(RawGguf().header(1, 0).tensor("t", {huge, 2}).pad(64), "allowed less than 2^63 elements");
  expect_refused(RawGguf().header(1, 0).tensor("t", {UINT64_MAX}).pad(64),
                 "found dimension 0 of length 184467");
  expect_refused(RawGguf().header(1, 0).tensor("t", {huge}).pad(64), "allowed less than 2^64 bytes");
  expect_refused(RawGguf().header(1, 0).tensor("t", {huge - 1}).pad(64), "truncated in tensor \"t\"");
}

TEST(GgufFile, TypesThatGgmlDoesNotHave) {
  expect_refused(RawGguf().header(1, 0).tensor("t", {32}, GGML_TYPE_COUNT).pad(256),
                 "allowed a type that ggml computes");
  expect_refused(RawGguf().header(1, 0).tensor("t", {32}, UINT32_MAX).pad(256), "found type 4294967295");
  expect_refused(RawGguf().header(1, 0).tensor("t", {32}, 4).pad(256), "found type 4");  // Q4_2, removed
}

TEST(GgufFile, RowsThatDoNotDivideIntoBlocks) {
  expect_refused(RawGguf().header(1, 0).tensor("t", {33}, GGML_TYPE_Q8_0).pad(256),
                 "found rows of 33 elements, allowed multiples of 32 for type q8_0");
}

TEST(GgufFile, TensorNames) {
  expect_refused(RawGguf().header(1, 0).tensor("", {1}).pad(64), "a tensor name: found \"\"");
  expect_refused(RawGguf().header(1, 0).tensor(std::string(64, 'n'), {1}).pad(64),
                 "length of a tensor name: found 64");
  expect_refused(RawGguf().header(2, 0).tensor("t", {1}).tensor("t", {1}).pad(128),
                 "tensor \"t\" is there twice");
}

TEST(GgufFile, TensorsThatOverlapOrLeaveGaps) {
  const auto file = [](uint64_t second) {
    return RawGguf().header(2, 0).tensor("a", {16}).tensor("b", {16}, GGML_TYPE_F32, second).pad(512);
  };
  expect_refused(file(0), "tensor \"b\": found offset 0, allowed 64");
  expect_refused(file(32), "found offset 32");
  expect_refused(file(128), "found offset 128");
  expect_refused(file(UINT64_MAX), "found offset 18446744073709551615");
}

TEST(GgufFile, DataBeyondTheFile) {
  expect_refused(RawGguf().header(1, 0).tensor("t", {64}).pad(64), "truncated in tensor \"t\"");
}

TEST(GgufFile, OffsetsAreAbsoluteAndFollowTheAlignment) {
  const TempDir dir;
  const std::string path = dir.file("aligned.gguf");
  const RawGguf file = RawGguf()
                           .header(2, 1)
                           .u32_key("general.alignment", 64)
                           .tensor("a", {3, 2}, GGML_TYPE_F16)
                           .tensor("b", {5}, GGML_TYPE_F32, 64);
  const size_t header_bytes = file.bytes().size();
  test::write_bytes(path, RawGguf(file).pad(256).bytes());
  const GgufFile loaded(path);
  const size_t data_start = (header_bytes + 63) / 64 * 64;
  ASSERT_EQ(loaded.tensors().size(), 2U);
  EXPECT_EQ(loaded.tensors()[0].offset, data_start);
  EXPECT_EQ(loaded.tensors()[0].bytes, 12U);
  EXPECT_EQ(loaded.find_tensor("b")->offset, data_start + 64);
  EXPECT_EQ(loaded.find_tensor("b")->bytes, 20U);
  EXPECT_EQ(loaded.find_tensor("c"), nullptr);
  EXPECT_EQ(shape_text(loaded.tensors()[0]), "[3, 2]");
  EXPECT_EQ(loaded.tensors()[1].offset,
            gguf_get_data_offset(loaded.gguf()) + gguf_get_tensor_offset(loaded.gguf(), 1));
}

// Every getter against every kind of value: the right one reads, every other one says what it found.
class GgufGetters : public ::testing::Test {
 protected:
  void SetUp() override {
    gguf_context* gguf = gguf_init_empty();
    gguf_set_val_u8(gguf, "u8", 200);
    gguf_set_val_i16(gguf, "i16", -3);
    gguf_set_val_u64(gguf, "u64", UINT64_MAX);
    gguf_set_val_f32(gguf, "f32", 0.5F);
    gguf_set_val_f64(gguf, "f64", 0.25);
    gguf_set_val_f32(gguf, "nan", std::numeric_limits<float>::quiet_NaN());
    gguf_set_val_f64(gguf, "big", 1e300);
    gguf_set_val_bool(gguf, "bool", true);
    gguf_set_val_str(gguf, "str", "text");
    const int32_t numbers[] = {7, -8};
    gguf_set_arr_data(gguf, "numbers", GGUF_TYPE_INT32, numbers, 2);
    const char* texts[] = {"a", "b"};
    gguf_set_arr_str(gguf, "texts", texts, 2);
    path_ = dir_.file("values.gguf");
    gguf_write_to_file(gguf, path_.c_str(), false);
    gguf_free(gguf);
  }

  TempDir dir_;
  std::string path_;
};

TEST_F(GgufGetters, ReadTheirKind) {
  const GgufFile file(path_);
  EXPECT_EQ(file.find_u32("u8", 0, 255), 200U);
  EXPECT_EQ(file.find_u32("none", 0, 255), std::nullopt);
  EXPECT_EQ(file.find_f32("f32"), 0.5F);
  EXPECT_EQ(file.find_f32("f64"), 0.25F);
  EXPECT_EQ(file.find_bool("bool"), true);
  EXPECT_EQ(file.find_string("str"), "text");
  EXPECT_EQ(file.find_integers("numbers"), (std::vector<int64_t>{7, -8}));
  EXPECT_EQ(file.find_strings("texts"), (std::vector<std::string>{"a", "b"}));
}

TEST_F(GgufGetters, RefuseValuesOutOfRange) {
  const GgufFile file(path_);
  const auto bad = ErrorCode::bad_model_file;
  expect_error([&] { file.find_u32("u8", 0, 199); }, bad, "key \"u8\": found 200, allowed 0..199");
  expect_error([&] { file.find_u32("i16", 0, 9); }, bad, "found -3, allowed 0..9");
  expect_error([&] { file.find_u32("u64", 0, UINT32_MAX); }, bad, "allowed 0..4294967295");
  expect_error([&] { file.find_f32("nan"); }, bad, "allowed a finite number");
  expect_error([&] { file.find_f32("big"); }, bad, "allowed a finite number");
}

TEST_F(GgufGetters, RefuseOtherKindsAndMissingKeys) {
  const GgufFile file(path_);
  const std::vector<std::pair<std::string, std::set<std::string>>> kinds = {
      {"u32", {"u8", "i16", "u64"}},
      {"f32", {"f32", "f64", "nan", "big"}},
      {"bool", {"bool"}},
      {"str", {"str"}},
      {"integers", {"numbers"}},
      {"strings", {"texts"}}};
  for (const auto& [getter, right] : kinds) {
    for (const std::string& key : file.keys()) {
      if (right.contains(key)) {
        continue;
      }
      SCOPED_TRACE(getter + " of " + key);
      expect_error(
          [&, &name = getter] {
            if (name == "u32") {
              file.find_u32(key, 0, UINT32_MAX);
            } else if (name == "f32") {
              file.find_f32(key);
            } else if (name == "bool") {
              file.find_bool(key);
            } else if (name == "str") {
              file.find_string(key);
            } else if (name == "integers") {
              file.find_integers(key);
            } else {
              file.find_strings(key);
            }
          },
          ErrorCode::bad_model_file, "found " + file.type_text(key) + ", allowed");
    }
  }
  expect_error([&] { file.get_string("none"); }, ErrorCode::bad_model_file, "key \"none\" is missing");
  expect_error([&] { file.get_u32("none", 0, 1); }, ErrorCode::bad_model_file, "key \"none\" is missing");
  expect_error([&] { file.get_f32("none"); }, ErrorCode::bad_model_file, "key \"none\" is missing");
}

}  // namespace
}  // namespace kvase
