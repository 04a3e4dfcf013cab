// SPDX-License-Identifier: MIT
#include "tests/support/http2/floods.h"

#include <utility>

#include "tests/support/http2/frames.h"

namespace uopd::test::http2 {
namespace {

constexpr size_t kPart = 16 << 10;
constexpr char kHello[] = "/uopd.v1.UopdService/Hello";
constexpr char kUpload[] = "/uopd.v1.UopdService/Upload";

template <class Make>
std::string Repeat(Make make) {
  std::string out;
  while (out.size() < kPart) out += make();
  return out;
}

std::string Headers(Sender& to, std::string_view method, uint8_t flags = kEndHeaders) {
  const uint32_t stream = to.stream;
  to.stream += 2;
  return Frame(Type::kHeaders, flags, stream, CallFields(method));
}

// A message of no bytes.
std::string EmptyMessage(uint32_t stream) {
  return Frame(Type::kData, kEndStream, stream, std::string(5, '\0'));
}

// `first` in the first part, then the same bytes again and again.
template <class First, class Rest>
Flood Constant(const char* name, First first, Rest rest) {
  return {.name = name, .next = [=](Sender& to) {
            return to.parts == 0 ? first(to) : Repeat([&] { return rest(to); });
          }};
}

std::string Nothing(Sender&) { return Acknowledgment(); }

std::vector<Flood> Make() {
  std::vector<Flood> out;
  out.push_back(Constant(
      "endless_headers", [](Sender& to) { return Headers(to, kHello, 0); },
      [](Sender&) {
        std::string block;
        for (int i = 0; i < 100; ++i) block += Field("x", "y");
        return Frame(Type::kContinuation, 0, 1, block);
      }));
  out.push_back(Constant(
      "endless_field",
      [](Sender& to) {
        // A field of a length that is never reached.
        return Headers(to, kHello, 0) +
               Frame(Type::kContinuation, 0, 1, std::string("\0\1x\x7f\xff\xff\xff\xff\x03", 9));
      },
      [](Sender&) { return Frame(Type::kContinuation, 0, 1, std::string(8 << 10, 'y')); }));
  out.push_back(Constant(
      "empty_continuations", [](Sender& to) { return Headers(to, kHello, 0); },
      [](Sender&) { return Frame(Type::kContinuation, 0, 1); }));
  out.push_back(Constant("rapid_reset", Nothing, [](Sender& to) {
    const uint32_t stream = to.stream;
    return Headers(to, kHello) + Frame(Type::kReset, 0, stream, Number(8));
  }));
  out.push_back(Constant("rapid_reset_of_calls", Nothing, [](Sender& to) {
    const uint32_t stream = to.stream;
    return Headers(to, kHello) + EmptyMessage(stream) + Frame(Type::kReset, 0, stream, Number(8));
  }));
  // Frames that the server answers by a reset of its own.
  out.push_back(Constant("provoked_resets", Nothing, [](Sender& to) {
    const uint32_t stream = to.stream;
    return Headers(to, kHello) + Frame(Type::kData, 0, stream, std::string(5, '\xff'));
  }));
  out.push_back(
      Constant("settings", Nothing, [](Sender&) { return Frame(Type::kSettings, 0, 0); }));
  out.push_back(Constant("window_sizes", Nothing, [](Sender& to) {
    static uint32_t size = 0;
    return Frame(Type::kSettings, 0, 0, std::string("\0\4", 2) + Number(65535 + ++size % 2)) +
           Frame(Type::kPriority, 0, to.stream, std::string(5, '\0'));
  }));
  out.push_back(Constant("acknowledgments", Nothing, [](Sender&) { return Acknowledgment(); }));
  out.push_back(Constant("pings", Nothing,
                         [](Sender&) { return Frame(Type::kPing, 0, 0, std::string(8, 'p')); }));
  out.push_back(Constant("pings_unread", Nothing, [](Sender& to) {
    return Frame(Type::kPing, 0, 0, std::string(8, 'p')) +
           (to.stream < 200 ? Headers(to, kHello, kEndHeaders | kEndStream) : "");
  }));
  out.back().reads = false;
  out.push_back(Constant(
      "empty_data", [](Sender& to) { return Acknowledgment() + Headers(to, kUpload); },
      [](Sender&) { return Frame(Type::kData, 0, 1); }));
  out.push_back(Constant(
      "tiny_data",
      [](Sender& to) {
        return Acknowledgment() + Headers(to, kUpload) +
               Frame(Type::kData, 0, 1, std::string("\0\0\xff\xff\xff", 5));
      },
      [](Sender&) { return Frame(Type::kData, 0, 1, "x"); }));
  out.push_back(Constant("window_updates", Nothing,
                         [](Sender&) { return Frame(Type::kWindowUpdate, 0, 0, Number(1)); }));
  out.push_back(Constant("priorities", Nothing, [](Sender& to) {
    return Frame(Type::kPriority, 0, to.stream, std::string(5, '\0'));
  }));
  out.push_back(Constant("unknown_frames", Nothing,
                         [](Sender&) { return Frame(static_cast<Type>(200), 0, 0, "unknown"); }));
  out.push_back(
      Constant("unacknowledged_calls", Nothing, [](Sender& to) { return Headers(to, kHello); }));
  out.back().acknowledges = false;
  // As many calls as a connection may have, whose messages never come.
  out.push_back({.name = "open_calls", .next = [](Sender& to) -> std::string {
                   if (to.stream > 2 * 250) return "";
                   std::string said = Acknowledgment();
                   while (to.stream < 2 * 250) said += Headers(to, kHello);
                   return said;
                 }});
  out.push_back({.name = "open_calls_with_fields", .next = [](Sender& to) -> std::string {
                   if (to.stream > 2 * 250) return "";
                   // The first field goes into the table; a byte is enough to say it again.
                   std::string block = CallFields(kHello) + std::string("\x40\1x\0", 4);
                   block += std::string(220, '\xbe');
                   std::string said = to.parts == 0 ? Acknowledgment() : "";
                   for (int i = 0; i < 50; ++i, to.stream += 2) {
                     said += Frame(Type::kHeaders, kEndHeaders, to.stream, block);
                   }
                   return said;
                 }});
  out.push_back(Constant(
      "hpack_bomb",
      [](Sender& to) {
        const std::string large = std::string("\x40\1x\x7f\xa1\x1e", 6) + std::string(4000, 'y');
        return Acknowledgment() + Frame(Type::kHeaders, kEndHeaders,
                                        std::exchange(to.stream, to.stream + 2),
                                        CallFields(kHello) + large);
      },
      [](Sender& to) {
        return Frame(Type::kHeaders, kEndHeaders, std::exchange(to.stream, to.stream + 2),
                     CallFields(kHello) + std::string(8 << 10, '\xbe'));
      }));
  out.push_back(Constant("unknown_methods", Nothing, [](Sender& to) {
    return Headers(to, "/no/Method", kEndHeaders | kEndStream);
  }));
  out.push_back(Constant("calls", Nothing, [](Sender& to) {
    const uint32_t stream = to.stream;
    return Headers(to, kHello) + EmptyMessage(stream);
  }));
  out.push_back(out.back());
  out.back().name = "calls_unread";
  out.back().reads = false;
  return out;
}

}  // namespace

const std::vector<Flood>& Floods() {
  static const std::vector<Flood> all = Make();
  return all;
}

}  // namespace uopd::test::http2
