// SPDX-License-Identifier: MIT
#include "server/net/message_pieces.h"

#include <gtest/gtest.h>

#include <string>

namespace uopd::net {
namespace {

std::string Message(size_t size) {
  std::string out(1, '\0');
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(size >> shift);
  return out + std::string(size, 'x');
}

// One frame on stream 1, or on another.
bool Add(MessagePieces& pieces, std::string_view bytes, uint32_t stream = 1, bool last = false) {
  if (!pieces.BeginFrame(stream, last)) return false;
  pieces.Receive({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  pieces.EndFrame();
  return true;
}

// How many frames of this size are taken of a message.
size_t Taken(MessagePieces& pieces, const std::string& message, size_t size, uint32_t stream = 1) {
  size_t frames = 0;
  for (std::string_view left = message; !left.empty(); ++frames) {
    if (!Add(pieces, left.substr(0, size), stream)) return frames;
    left.remove_prefix(std::min(size, left.size()));
  }
  return frames;
}

TEST(MessagePieces, SmallMessagesAreWhole) {
  MessagePieces pieces;
  for (int i = 0; i < 100'000; ++i) ASSERT_TRUE(Add(pieces, Message(3))) << i;
  for (int i = 0; i < 100'000; ++i) ASSERT_TRUE(Add(pieces, Message(0))) << i;
  // Messages over the borders of frames.
  std::string many;
  for (int i = 0; i < 10'000; ++i) many += Message(40);
  EXPECT_EQ(Taken(pieces, many, 17), (many.size() + 16) / 17);
}

TEST(MessagePieces, ALargeMessageMayHaveAsManyPiecesAsItNeeds) {
  MessagePieces pieces;
  const std::string message = Message(16 << 20);
  EXPECT_EQ(Taken(pieces, message, 16 << 10), 1'025U);
  EXPECT_EQ(Taken(pieces, message, 300), (message.size() + 299) / 300);
  EXPECT_EQ(Taken(pieces, Message(50), 1), 55U);
}

TEST(MessagePieces, TinyPiecesAreTooMany) {
  MessagePieces pieces;
  EXPECT_EQ(Taken(pieces, Message(16 << 20), 1), 64U);
}

TEST(MessagePieces, StreamsCountApart) {
  MessagePieces pieces;
  const std::string message = Message(1000);
  for (uint32_t stream = 1; stream < 200; stream += 2) {
    ASSERT_TRUE(Add(pieces, message.substr(0, 10), stream));
  }
  for (uint32_t stream = 1; stream < 200; stream += 2) {
    ASSERT_EQ(Taken(pieces, message.substr(10), 20, stream), 50U);
  }
}

TEST(MessagePieces, UnfinishedBytesAreThoseOfMessagesThatAreNotComplete) {
  MessagePieces pieces;
  const std::string message = Message(1000);
  ASSERT_TRUE(Add(pieces, message.substr(0, 105), 1));
  EXPECT_EQ(pieces.unfinished(), 100U);
  ASSERT_TRUE(Add(pieces, message.substr(0, 505), 3));
  EXPECT_EQ(pieces.unfinished(), 600U);
  ASSERT_TRUE(Add(pieces, message.substr(105), 1));
  EXPECT_EQ(pieces.unfinished(), 500U);
  ASSERT_TRUE(Add(pieces, Message(40), 5));
  EXPECT_EQ(pieces.unfinished(), 500U);
  pieces.EndStream(3);
  EXPECT_EQ(pieces.unfinished(), 0U);
  ASSERT_TRUE(Add(pieces, message.substr(0, 505), 7));
  ASSERT_TRUE(Add(pieces, "x", 7, true));
  EXPECT_EQ(pieces.unfinished(), 0U);
}

TEST(MessagePieces, WhatIsForgottenStaysCounted) {
  MessagePieces pieces;
  const std::string half = Message(1000).substr(0, 505);
  for (uint32_t i = 0; i < 3'000; ++i) ASSERT_TRUE(Add(pieces, half, 2 * i + 1));
  EXPECT_EQ(pieces.unfinished(), 3'000U * 500);
}

TEST(MessagePieces, AStreamThatEndsIsForgotten) {
  MessagePieces pieces;
  const std::string message = Message(1000);
  EXPECT_EQ(Taken(pieces, message.substr(0, 60), 1), 60U);
  ASSERT_TRUE(Add(pieces, "x", 1, true));
  EXPECT_EQ(Taken(pieces, message.substr(0, 60), 1), 60U);
  pieces.EndStream(1);
  EXPECT_EQ(Taken(pieces, message.substr(0, 60), 1), 60U);
}

TEST(MessagePieces, OfManyStreamsTheOldestAreForgotten) {
  MessagePieces pieces;
  const std::string message = Message(1000);
  for (uint32_t stream = 1; stream < 10'000; stream += 2) {
    ASSERT_EQ(Taken(pieces, message.substr(0, 60), 1, stream), 60U) << stream;
  }
  EXPECT_EQ(Taken(pieces, message.substr(0, 60), 1, 1), 60U);
  EXPECT_LT(Taken(pieces, message.substr(60), 1, 9'999), 10U) << "the newest is known";
}

}  // namespace
}  // namespace uopd::net
