// SPDX-License-Identifier: MIT
// What the page's data says is what the cache holds; and no text can leave the element that the data lies in.
#include "cli/inspect_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <fstream>
#include <sstream>

#include "cli/event_record.h"
#include "system/policies.h"

namespace kvase::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

TEST(EventRecord, SaysWhatEveryHeadHoldsAfterEveryEvent) {
  const uint32_t n_layers = toy_model().info().n_layers, n_kv_heads = toy_model().info().n_kv_heads;
  for (const char* policy : {"window", "vase-attnv", "snapkv+pyramid:beta=2"}) {
    SCOPED_TRACE(policy);
    EngineOptions options = options_for(policy, {40, 16});
    options.cache.observed_statistics = {Statistic::v_range};
    Engine engine(toy_model(), options);
    const std::vector<uint32_t> layers = {0, n_layers - 1};
    EventRecord record(layers, n_kv_heads);
    engine.observe_events([&](const LayerEvent& seen) { record.add(seen); });
    const SequenceId sequence = engine.open({.seed = 2});
    int64_t n_seen = 0;
    for (const Token token : random_tokens(150, toy_model().info().n_vocab, 3)) {
      feed(engine, sequence, {&token, 1});
      ++n_seen;
      record.extend(n_seen);
      for (const LayerRecord& layer : record.layers()) {
        for (uint32_t kv_head = 0; kv_head < n_kv_heads; ++kv_head) {
          std::vector<int32_t> held;
          const std::vector<uint16_t>& left = layer.heads[kv_head].left;
          ASSERT_EQ(left.size(), static_cast<size_t>(n_seen));
          for (int32_t pos = 0; pos < n_seen; ++pos) {
            if (left[static_cast<size_t>(pos)] == kNoEvent) held.push_back(pos);
          }
          ASSERT_EQ(held, engine.kept_positions(sequence, layer.layer, kv_head)) << "after " << n_seen;
        }
      }
    }
    EXPECT_GT(record.layers()[0].events.size(), 3U);
  }
}

// One head of four slots that goes through one event.
struct OneEvent {
  const std::vector<int32_t> pos = {3, 0, 2, 1};
  const std::vector<float> ranges = {3, 10, 2, 1};
  HeadView head;
  LayerView layer;
  EventContext event;
  Scores scores = {{std::numeric_limits<double>::infinity(), 5, 0.25, -1}};
  Verdict verdict = {.heads = {{.drop = {2, 3}, .demote = {1}, .order = {}}}};

  OneEvent() {
    head.pos = pos;
    head.columns[static_cast<size_t>(Statistic::v_range)] = ranges;
    layer = {.heads = {&head, 1}, .budget = 2, .n_mass_rows = 1};
    event.layer = 7;
    event.n_seen = 4;
    event.window = 1;
  }
  LayerEvent seen() const {
    return {.sequence = 0, .event = event, .layer = layer, .scores = scores, .verdict = verdict};
  }
};

TEST(EventRecord, KeepsRangesScoresAndTheirSpread) {
  const OneEvent one;
  EventRecord record(std::vector<uint32_t>{7}, 1);
  record.add(one.seen());
  record.extend(5);
  const LayerRecord& layer = record.layers()[0];
  const HeadRecord& head = layer.heads[0];
  EXPECT_EQ(layer.events, std::vector<int64_t>{4});
  EXPECT_EQ(head.left, (std::vector<uint16_t>{kNoEvent, 0, 0, kNoEvent, kNoEvent}));
  EXPECT_EQ(head.demoted, (std::vector<uint16_t>{0, kNoEvent, kNoEvent, kNoEvent, kNoEvent}));
  EXPECT_THAT(head.range,
              testing::Pointwise(testing::NanSensitiveFloatEq(), std::vector<float>{10, 1, 2, 3, kUnknown}));
  EXPECT_THAT(
      head.score,
      testing::Pointwise(testing::NanSensitiveFloatEq(),
                         std::vector<float>{5, -1, 0.25F, std::numeric_limits<float>::infinity(), kUnknown}));
  EXPECT_EQ(head.kept[0], (Quantiles{5, 5, 5, 5, 5})) << "the window's token is no candidate";
  EXPECT_EQ(head.dropped[0][0], -1);
  EXPECT_EQ(head.dropped[0][4], 0.25F);
}

TEST(EventRecord, LooksAtTheNamedLayersOnly) {
  const OneEvent one;
  EventRecord record(std::vector<uint32_t>{6}, 1);
  record.add(one.seen());
  EXPECT_TRUE(record.layers()[0].events.empty());
}

TEST(EventRecord, RefusesMoreEventsThanItCanNumber) {
  const OneEvent one;
  EventRecord record(std::vector<uint32_t>{7}, 1);
  for (uint32_t event = 0; event + 1 < kNoEvent; ++event) record.add(one.seen());
  try {
    record.add(one.seen());
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_THAT(error.what(), HasSubstr("more than 65534 events, allowed: up to that"));
  }
}

TEST(Base64, IsThatOfTheStandard) {
  // RFC 4648, section 10.
  for (const auto& [bytes, text] : std::vector<std::pair<std::string, std::string>>{{"", ""},
                                                                                    {"f", "Zg=="},
                                                                                    {"fo", "Zm8="},
                                                                                    {"foo", "Zm9v"},
                                                                                    {"foob", "Zm9vYg=="},
                                                                                    {"fooba", "Zm9vYmE="},
                                                                                    {"foobar", "Zm9vYmFy"}}) {
    EXPECT_EQ(base64(bytes), text);
  }
  EXPECT_EQ(base64(std::string("\xff\xfe\x00", 3)), "//4A");
}

TEST(InspectPage, PacksColumnsLittleEndian) {
  const OneEvent one;
  EventRecord record(std::vector<uint32_t>{7}, 1);
  record.add(one.seen());
  const Json head = json_of_record(record)[0]["heads"][0];
  EXPECT_EQ(head["left"], base64(std::string("\xff\xff\x00\x00\x00\x00\xff\xff", 8)));
  EXPECT_EQ(head["range"], base64(std::string("\x20\x41\x80\x3f\x00\x40\x40\x40", 8))) << "10, 1, 2, 3";
  EXPECT_EQ(head["score"], base64(std::string("\xa0\x40\x80\xbf\x80\x3e\x80\x7f", 8))) << "5, -1, 1/4, inf";
}

TEST(InspectPage, LeavesOutWhatNeverHappened) {
  EXPECT_EQ(json_of_record(EventRecord(std::vector<uint32_t>{0}, 1))[0]["heads"][0]["demoted"], "");
}

TEST(InspectPage, NoTextEndsTheElementThatItLiesIn) {
  const std::array<std::string, 3> pieces = {"</script><script>alert(1)</script>", "<!--", "\xff\x00\x80"};
  const std::string command = "kvase inspect -p '</script><script>alert(1)</script><!--\xff'";
  const std::string page = inspect_page({{"command", command}, {"text", json_of_text(pieces)}});
  const std::string before(kInspectPage.substr(0, kInspectPage.find("@DATA@")));
  const std::string after(kInspectPage.substr(kInspectPage.find("@DATA@") + 6));
  ASSERT_TRUE(page.starts_with(before));
  ASSERT_TRUE(page.ends_with(after));
  const std::string data = page.substr(before.size(), page.size() - before.size() - after.size());
  EXPECT_THAT(data, Not(HasSubstr("<")));
  const Json read = Json::parse(data);
  EXPECT_EQ(read["command"], "kvase inspect -p '</script><script>alert(1)</script><!--\xef\xbf\xbd'");
  EXPECT_EQ(read["text"]["lengths"], Json({pieces[0].size(), 4, 1}));
}

TEST(InspectPage, TheTemplateIsTheFileAndFetchesNothing) {
  std::ifstream file(KVASE_SOURCE_DIR "/src/cli/inspect_page.html");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(kInspectPage == text.str()) << "what CMake embedded is not the file";
  for (const char* word :
       {"http:", "https:", "src=", "@import", "url(", "fetch(", "XMLHttpRequest", "innerHTML", "eval("}) {
    EXPECT_THAT(text.str(), Not(HasSubstr(word)));
  }
}

}  // namespace
}  // namespace kvase::cli
