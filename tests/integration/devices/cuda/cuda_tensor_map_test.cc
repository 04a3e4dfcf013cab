// SPDX-License-Identifier: MIT
// Kernels that copy boxes of tensors get maps of their buffers, in launches and in graphs.
#include "tests/unit/devices/cuda/cuda_fixture.h"

namespace uopd::devices::cuda {
namespace {

using testing::HasSubstr;

class CudaTensorMapTest : public CudaTest {
 protected:
  static constexpr size_t kBytes = 1024;

  void OpenSpecific() {
    CudaOptions options = Options();
    options.specific = true;
    Open(options);
  }
  // A tensor of 16 rows of 32 halves in slot 1.
  static LaunchShape Shape() {
    LaunchShape out;
    out.maps = {{1, 2, 64, {32, 16}, {64}, {32, 8}}};
    return out;
  }
  std::shared_ptr<Buffer> Filled(std::byte value, size_t bytes = kBytes) {
    auto out = Allocate(bytes);
    EXPECT_TRUE(stream_->Fill(*out, 0, bytes, value).ok());
    return out;
  }
  absl::Status Copy(Executable& kernel, Buffer& to, Buffer& from, const LaunchShape& shape,
                    size_t offset = 0) {
    const BufferArg args[] = {{&to, 0}, {&from, offset}};
    const int64_t vars[] = {1};
    UOPD_TRY(stream_->Launch(kernel, shape, args, vars));
    return stream_->Synchronize();
  }
};

TEST_F(CudaTensorMapTest, ALaunchGetsTheMapOfItsBuffer) {
  OpenSpecific();
  ASSERT_TRUE(device_->target().bulk_copies);
  auto kernel = Kernel("boxes");
  auto out = Filled(std::byte{0}), a = Filled(std::byte{1}), b = Filled(std::byte{2});
  for (int turn = 0; turn < 3; ++turn) {
    ASSERT_TRUE(Copy(*kernel, *out, *a, Shape()).ok());
    EXPECT_EQ(ReadInt(*out), 0x01010101);
    ASSERT_TRUE(Copy(*kernel, *out, *b, Shape()).ok());
    EXPECT_EQ(ReadInt(*out), 0x02020202);
  }
  EXPECT_EQ(fake_->Calls("cuTensorMapEncodeTiled"), 2);  // one for each buffer
}

TEST_F(CudaTensorMapTest, ReplaysOfAGraphGetTheMapsOfTheirBuffers) {
  OpenSpecific();
  auto kernel = Kernel("boxes");
  const auto program = device_->Record(2, {{kernel, Shape(), {{0, 0}, {1, 0}}, {1}}}).value();
  auto out = Filled(std::byte{0}), a = Filled(std::byte{1}), b = Filled(std::byte{2});
  for (Buffer* from : {a.get(), b.get(), a.get()}) {
    Buffer* const buffers[] = {out.get(), from};
    ASSERT_TRUE(stream_->Replay(*program, buffers, {}).ok());
    EXPECT_EQ(ReadInt(*out), from == a.get() ? 0x01010101 : 0x02020202);
  }
  EXPECT_EQ(fake_->Calls("cuGraphLaunch"), 3);
  EXPECT_EQ(fake_->Calls("cuGraphExecKernelNodeSetParams_v2"), 2);
  EXPECT_EQ(fake_->Calls("cuTensorMapEncodeTiled"), 2);
}

TEST_F(CudaTensorMapTest, OldMapsAreMadeAgain) {
  OpenSpecific();
  auto kernel = Kernel("boxes");
  auto out = Filled(std::byte{0}), from = Filled(std::byte{3});
  const int kinds = static_cast<int>(gpu::TensorMaps::kKept) + 1;
  for (int i = 0; i < kinds; ++i) {
    LaunchShape shape = Shape();
    shape.maps[0].box[1] = 1 + i % 256;
    shape.maps[0].dims[1] = 1 + i / 256;
    ASSERT_TRUE(Copy(*kernel, *out, *from, shape).ok());
  }
  EXPECT_EQ(fake_->Calls("cuTensorMapEncodeTiled"), kinds);
  LaunchShape first = Shape();
  first.maps[0].box[1] = first.maps[0].dims[1] = 1;
  ASSERT_TRUE(Copy(*kernel, *out, *from, first).ok());
  EXPECT_EQ(fake_->Calls("cuTensorMapEncodeTiled"), kinds + 1);
  EXPECT_EQ(ReadInt(*out), 0x03030303);
}

TEST_F(CudaTensorMapTest, SaysWhatIsWrongWithAMap) {
  OpenSpecific();
  auto kernel = Kernel("boxes");
  auto out = Filled(std::byte{0}), from = Filled(std::byte{1}, kBytes + 4);
  LaunchShape shape = Shape();
  shape.maps[0].slot = 2;
  EXPECT_CODE(Copy(*kernel, *out, *from, shape), kInvalidArgument);
  shape = Shape();
  shape.maps[0].strides[0] = 72;
  EXPECT_CODE(Copy(*kernel, *out, *from, shape), kInvalidArgument);
  // The driver refuses the address.
  const absl::Status unaligned = Copy(*kernel, *out, *from, Shape(), 4);
  EXPECT_CODE(unaligned, kInternal);
  EXPECT_THAT(StatusText(unaligned), HasSubstr("cuTensorMapEncodeTiled fails with"));
  EXPECT_TRUE(device_->status().ok());
}

TEST_F(CudaTensorMapTest, ATensorFitsItsBuffer) {
  OpenSpecific();
  auto kernel = Kernel("boxes");
  auto out = Filled(std::byte{0}), from = Filled(std::byte{1}), exact = Filled(std::byte{2}, 48);
  EXPECT_CODE(Copy(*kernel, *out, *from, Shape(), 16), kInvalidArgument);
  LaunchShape shape = Shape();
  shape.maps[0].dims[1] = 17;
  EXPECT_THAT(StatusText(Copy(*kernel, *out, *from, shape)),
              HasSubstr("a tensor of 1088 bytes from buffer 1, which has 1024"));
  // More bytes than a number of 64 bits counts.
  shape.maps[0] = {
      1,         2, 64, {32, int64_t{1} << 32, int64_t{1} << 32}, {64, (int64_t{1} << 40) - 16},
      {32, 8, 1}};
  ASSERT_EQ(shape.maps[0].MaybeWrong(), "");
  EXPECT_EQ(shape.maps[0].tensor_bytes(), INT64_MAX);
  EXPECT_CODE(Copy(*kernel, *out, *from, shape), kInvalidArgument);
  EXPECT_CODE(Copy(*kernel, *out, *from, shape, 16), kInvalidArgument);
  EXPECT_EQ(fake_->Calls("cuTensorMapEncodeTiled"), 0);
  // Rows may be longer than what the tensor has of the last one.
  shape.maps[0] = {1, 2, 32, {8, 2}, {32}, {16, 2}};
  EXPECT_EQ(shape.maps[0].tensor_bytes(), 48);
  EXPECT_TRUE(Copy(*kernel, *out, *exact, shape).ok());
  EXPECT_CODE(Copy(*kernel, *out, *exact, shape, 1), kInvalidArgument);
}

TEST_F(CudaTensorMapTest, ATensorFitsTheBuffersOfAReplay) {
  OpenSpecific();
  auto kernel = Kernel("boxes");
  const auto program = device_->Record(2, {{kernel, Shape(), {{0, 0}, {1, 64}}, {1}}}).value();
  EXPECT_EQ(program->least_bytes()[1], kBytes + 64);
  auto out = Filled(std::byte{0}), small = Filled(std::byte{1}),
       large = Filled(std::byte{2}, kBytes + 64);
  Buffer* const few[] = {out.get(), small.get()};
  EXPECT_CODE(stream_->Replay(*program, few, {}), kInvalidArgument);
  Buffer* const enough[] = {out.get(), large.get()};
  ASSERT_TRUE(stream_->Replay(*program, enough, {}).ok());
  EXPECT_EQ(ReadInt(*out), 0x02020202);
  LaunchShape shape = Shape();
  shape.maps[0] = {
      1,         2, 64, {32, int64_t{1} << 32, int64_t{1} << 32}, {64, (int64_t{1} << 40) - 16},
      {32, 8, 1}};
  const auto endless = device_->Record(2, {{kernel, shape, {{0, 0}, {1, 64}}, {1}}}).value();
  EXPECT_CODE(stream_->Replay(*endless, enough, {}), kInvalidArgument);
}

TEST_F(CudaTensorMapTest, DevicesWithoutThemRefuseMaps) {
  Open();  // code for sm_90
  EXPECT_FALSE(device_->target().bulk_copies);
  auto kernel = Kernel("boxes");
  auto out = Filled(std::byte{0});
  EXPECT_CODE(Copy(*kernel, *out, *out, Shape()), kInvalidArgument);
}

TEST_F(CudaTensorMapTest, AnOldDriverHasNone) {
  CudaApi api = tests::FakeCuda::Api();
  api.cuTensorMapEncodeTiled = nullptr;
  driver_ = CudaDriver::Create(api).value();
  OpenSpecific();
  EXPECT_FALSE(device_->target().bulk_copies);
}

}  // namespace
}  // namespace uopd::devices::cuda
