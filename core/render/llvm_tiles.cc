// SPDX-License-Identifier: MIT
// Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18 (Programming
// with Intel AMX); the instructions in volume 2.
#include "core/render/llvm_tiles.h"

#include "core/ir/wmma_block.h"

namespace uopd::render {
namespace {

constexpr int64_t kRows = 16, kRowBytes = 64, kWords = 16;  // of a tile
constexpr int64_t kFirstRows = 4, kFirstColumns = 6;        // tiles

// Palette 1; 64 bytes a row (16 bits each) of tiles 0 to 7, from byte 16; their rows, from byte 48.
constexpr std::string_view kConfiguration =
    "@tiles = internal unnamed_addr constant <{ [16 x i8], [16 x i16], [16 x i8] }> "
    "<{ [16 x i8] c\"\\01\\00\\00\\00\\00\\00\\00\\00\\00\\00\\00\\00\\00\\00\\00\\00\", "
    "[16 x i16] [i16 64, i16 64, i16 64, i16 64, i16 64, i16 64, i16 64, i16 64, i16 0, i16 0, "
    "i16 0, i16 0, i16 0, i16 0, i16 0, i16 0], "
    "[16 x i8] c\"\\10\\10\\10\\10\\10\\10\\10\\10\\00\\00\\00\\00\\00\\00\\00\\00\" }>, align "
    "64\n";

}  // namespace

std::string_view LlvmTiles::Constants() const { return blocks_ > 0 ? kConfiguration : ""; }
std::string_view LlvmTiles::Begin() {
  if (blocks_ == 0) return "";
  text_.Call("@llvm.x86.ldtilecfg", "void", {{"ptr", "@tiles"}});
  text_.Call("@llvm.x86.tilerelease", "void", {});
  return "  call void @llvm.x86.ldtilecfg(ptr @tiles)\n";
}
std::string_view LlvmTiles::End() const {
  return blocks_ > 0 ? "  call void @llvm.x86.tilerelease()\n" : "";
}

absl::Status LlvmTiles::Block(ir::UOp u) {
  const ir::WmmaBlock block = ir::WmmaBlock::Of(u);
  const int64_t down = block.rows / kRows, across = block.columns / kWords;
  const bool fits = down >= 1 && down <= 2 && across >= 1 && across <= 2 &&
                    block.rows % kRows == 0 && block.columns % kWords == 0 &&
                    block.words % kWords == 0;
  if (!fits) return NoLlvmRendering(u);
  const std::string k = Cat(blocks_++);
  const std::string& sums = text_.names.at(u.src(0).id());
  const std::string& rows = text_.names.at(u.src(1).id());
  const std::string& columns = text_.names.at(u.src(2).id());
  const int64_t row_bytes = block.row_stride * ir::ByteSize(u.src(1).dtype()),
                word_bytes = block.word_stride * 4, sum_bytes = block.columns * 4;
  const auto is = [](int64_t dtype, ir::Dtype d) {
    return dtype == static_cast<int64_t>(ir::NumberOf(d));
  };
  const auto sign = [&](int64_t dtype) { return is(dtype, ir::Dtype::U8) ? "u" : "s"; };
  const std::string product = is(block.a, ir::Dtype::BF16) ? "@llvm.x86.tdpbf16ps"
                              : is(block.a, ir::Dtype::F16)
                                  ? "@llvm.x86.tdpfp16ps"
                                  : Cat("@llvm.x86.tdpb", sign(block.a), sign(block.b), "d");
  const auto at = [&](std::string_view from, int64_t bytes) {
    const std::string out = text_.Temporary();
    text_.Put(out, " = getelementptr i8, ptr ", from, ", i64 ", bytes);
    return out;
  };
  const auto tile = [&](int64_t i) { return std::pair<std::string, std::string>("i8", Cat(i)); };
  for (int64_t t = 0; t < down * across; ++t)
    text_.Put(text_.Call("@llvm.x86.tilezero", "void", {tile(t)}));
  const std::string before = text_.block, label = Cat("tiles", k);
  text_.Put("br label %", label);
  text_.Label(label);
  const std::string step = Cat("%step", k), next = Cat("%next_step", k);
  text_.Put(step, " = phi i64 [ 0, %", before, " ], [ ", next, ", %", label, " ]");
  const std::string row_offset = text_.Temporary(), row = text_.Temporary(),
                    column_offset = text_.Temporary(), column = text_.Temporary();
  text_.Put(row_offset, " = mul i64 ", step, ", ", kRowBytes);
  text_.Put(row, " = getelementptr i8, ptr ", rows, ", i64 ", row_offset);
  text_.Put(column_offset, " = mul i64 ", step, ", ", kWords * word_bytes);
  text_.Put(column, " = getelementptr i8, ptr ", columns, ", i64 ", column_offset);
  const auto load = [&](int64_t i, const std::string& from, int64_t stride) {
    text_.Put(text_.Call("@llvm.x86.tileloadd64", "void",
                         {tile(i), {"ptr", from}, {"i64", Cat(stride)}}));
  };
  for (int64_t j = 0; j < across; ++j)
    load(kFirstColumns + j, at(column, j * kRowBytes), word_bytes);
  for (int64_t i = 0; i < down; ++i) {
    load(kFirstRows + i, at(row, i * kRows * row_bytes), row_bytes);
    for (int64_t j = 0; j < across; ++j) {
      text_.Put(text_.Call(product, "void",
                           {tile(i * across + j), tile(kFirstRows + i), tile(kFirstColumns + j)}));
    }
  }
  const std::string more = text_.Temporary();
  text_.Put(next, " = add nuw nsw i64 ", step, ", 1");
  text_.Put(more, " = icmp slt i64 ", next, ", ", block.words / kWords);
  text_.Put("br i1 ", more, ", label %", label, ", label %", label, "_end");
  text_.Label(Cat(label, "_end"));
  for (int64_t i = 0; i < down; ++i) {
    for (int64_t j = 0; j < across; ++j) {
      const std::string to = at(sums, i * kRows * sum_bytes + j * kRowBytes);
      text_.Put(text_.Call("@llvm.x86.tilestored64", "void",
                           {tile(i * across + j), {"ptr", to}, {"i64", Cat(sum_bytes)}}));
    }
  }
  return absl::OkStatus();
}

}  // namespace uopd::render
