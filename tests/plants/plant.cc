// SPDX-License-Identifier: MIT
#include "tests/plants/plant.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "absl/strings/str_replace.h"
#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/ir/io/wire.h"
#include "core/search/candidate.h"

namespace uopd::plants {
namespace {

constexpr int32_t kFirstMarker = 1'600'000'000;
constexpr int32_t kNumbers = 1'000'000;  // of a kind
constexpr std::string_view kInObject = "uopd-plant ";

std::optional<Plant> PlantOfMarker(std::string_view digits) {
  int64_t marker = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), marker);
  if (error != std::errc{} || digits.size() != 10 || end != digits.data() + digits.size())
    return std::nullopt;
  const int64_t at = marker - kFirstMarker;
  if (at < 0 || at >= (kKinds + 1) * int64_t{kNumbers}) return std::nullopt;
  return Plant{static_cast<Kind>(at / kNumbers), static_cast<int>(at % kNumbers)};
}

// Calls of the operating system, without a library: an object has no symbols for them.
#if defined(__x86_64__)
struct Numbers {
  int mmap = 9, nanosleep = 35, getpid = 39, kill = 62;
};
constexpr char kSystemCall[] =
    "  %r = call i64 asm sideeffect \"syscall\", "
    "\"={rax},{rax},{rdi},{rsi},{rdx},{r10},{r8},{r9},~{rcx},~{r11},~{memory}\""
    "(i64 %n, i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f)\n";
#elif defined(__aarch64__)
struct Numbers {
  int mmap = 222, nanosleep = 101, getpid = 172, kill = 129;
};
constexpr char kSystemCall[] =
    "  %r = call i64 asm sideeffect \"svc #0\", "
    "\"={x0},{x8},{x0},{x1},{x2},{x3},{x4},{x5},~{memory}\""
    "(i64 %n, i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f)\n";
#endif

std::string SystemCall() {
  return Cat(
      "define internal i64 @plant.call(i64 %n, i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f) "
      "noinline {\n",
      kSystemCall, "  ret i64 %r\n}\n");
}

constexpr std::string_view kPieceBytes = "268435456";

// A function that is called before the kernel begins.
std::string Body(Kind kind) {
  const Numbers call;
  switch (kind) {
    case Kind::kEndless:
      return "  br label %again\nagain:\n"
             "  call void asm sideeffect \"\", \"~{memory}\"()\n  br label %again\n";
    case Kind::kFault:
      return "  %p = inttoptr i64 64 to ptr\n  %v = load volatile i32, ptr %p\n  ret void\n";
    case Kind::kAbort:
      return Cat("  %pid = call i64 @plant.call(i64 ", call.getpid,
                 ", i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)\n"
                 "  %x = call i64 @plant.call(i64 ",
                 call.kill, ", i64 %pid, i64 6, i64 0, i64 0, i64 0, i64 0)\n  ret void\n");
    case Kind::kAllocate:
      // mmap(0, piece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0). A failure is a
      // small negative number, and no memory is there.
      return Cat("  br label %again\nagain:\n  %m = call i64 @plant.call(i64 ", call.mmap,
                 ", i64 0, i64 ", kPieceBytes,
                 ", i64 3, i64 34, i64 -1, i64 0)\n"
                 "  %p = inttoptr i64 %m to ptr\n  store volatile i32 1, ptr %p\n"
                 "  br label %again\n");
    case Kind::kSleeper:
      return Cat(
          "  %t = alloca [2 x i64]\n  store volatile i64 3600, ptr %t\n"
          "  %t1 = getelementptr i64, ptr %t, i64 1\n  store volatile i64 0, ptr %t1\n"
          "  %ti = ptrtoint ptr %t to i64\n  br label %again\nagain:\n"
          "  %x = call i64 @plant.call(i64 ",
          call.nanosleep, ", i64 %ti, i64 0, i64 0, i64 0, i64 0, i64 0)\n  br label %again\n");
    case Kind::kWrong:
    case Kind::kNone:
      return "  ret void\n";
  }
  return "";
}

}  // namespace

const char* Name(Kind kind) {
  constexpr const char* kNames[] = {"endless loop",    "fault",   "abort", "wrong result",
                                    "huge allocation", "sleeper", "none"};
  return kNames[static_cast<size_t>(kind)];
}

const char* ReasonOf(Kind kind) {
  constexpr const char* kReasons[] = {"time limit", "SIGSEGV",    "SIGABRT", "checking buffer",
                                      "SIGSEGV",    "time limit", ""};
  return kReasons[static_cast<size_t>(kind)];
}

int32_t MarkerOf(const Plant& plant) {
  return kFirstMarker + static_cast<int32_t>(plant.kind) * kNumbers + plant.number;
}

std::optional<Plant> PlantOfText(std::string_view text) {
  for (size_t begin = 0; begin < text.size();) {
    const auto digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
    if (!digit(text[begin])) {
      ++begin;
      continue;
    }
    size_t end = begin;
    while (end < text.size() && digit(text[end])) ++end;
    if (const auto plant = PlantOfMarker(text.substr(begin, end - begin))) return plant;
    begin = end;
  }
  return std::nullopt;
}

std::optional<Plant> PlantOfObject(std::string_view object) {
  const size_t at = object.find(kInObject);
  if (at == std::string_view::npos) return std::nullopt;
  return PlantOfMarker(object.substr(at + kInObject.size(), 10));
}

std::optional<std::string> Spoil(std::string_view text, const Plant& plant) {
  const std::string head = Cat("define void @", search::kCandidateEntry, "(");
  const size_t at = text.find(head);
  const size_t body = at == std::string_view::npos ? at : text.find("{\n", at);
  if (body == std::string_view::npos) return std::nullopt;
  const std::string marker = Cat(MarkerOf(plant));
  const std::string mark = Cat(kInObject, marker);
  std::string kernel =
      Cat(text.substr(0, body + 2), "  call void @plant()\n", text.substr(body + 2));
  if (plant.kind == Kind::kWrong)
    kernel = absl::StrReplaceAll(kernel, {{marker, Cat(MarkerOf(plant) + 1)}});
  return Cat("@plant.mark = constant [", mark.size(), " x i8] c\"", mark, "\"\n", SystemCall(),
             "define internal void @plant() noinline {\n", Body(plant.kind), "}\n", kernel);
}

std::string GraphOf(const Plant& plant, int64_t n) {
  using ir::Dtype;
  ir::UOpContext ctx;
  const ir::UOp shape = ir::ShapeArg(ctx, std::initializer_list<int64_t>{n});
  const ir::UOp product =
      ir::Mul(ctx, ir::Param(ctx, 1, Dtype::I32, shape), ir::Param(ctx, 2, Dtype::I32, shape));
  const ir::UOp sum = ir::Add(ctx, product, ctx.Int(Dtype::I32, MarkerOf(plant)));
  const ir::UOp store = ir::Store(ctx, ir::Param(ctx, 0, Dtype::I32, shape), sum);
  return ir::Encode(ctx, ir::Sink(ctx, std::span(&store, 1)));
}

}  // namespace uopd::plants
