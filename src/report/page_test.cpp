// SPDX-License-Identifier: MIT
// One document in two forms; nothing in it can break out of its place.
#include "report/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "kvase/error.h"
#include "report/markup.h"

namespace kvase::report {
namespace {

Document example() {
  return {
      .title = "A <title>",
      .blocks = {Heading{"First"}, Paragraph{"1 < 2 & a|b"}, Code{"kvase eval x > y"},
                 Table{.columns = {{"name", Align::left}, {"value"}}, .rows = {{"a|b", "1"}, {"<i>", "2"}}},
                 Figure{.file = "plot.svg", .caption = "What it shows", .svg = "<svg/>"}}};
}

TEST(Page, MarkdownLinksItsFigures) {
  EXPECT_EQ(to_markdown(example()), R"(# A &lt;title>

## First

1 &lt; 2 &amp; a\|b

```
kvase eval x > y
```

| name | value |
|---|---:|
| a\|b | 1 |
| &lt;i> | 2 |

![What it shows](plot.svg)

What it shows
)");
}

TEST(Page, HtmlHoldsItsFigures) {
  const std::string html = to_html(example());
  EXPECT_THAT(html, testing::StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(html, testing::HasSubstr("<title>A &lt;title&gt;</title>"));
  EXPECT_THAT(html, testing::HasSubstr("<td class=\"number\">2</td>"));
  EXPECT_THAT(html, testing::HasSubstr("<td>&lt;i&gt;</td>"));
  EXPECT_THAT(html, testing::HasSubstr("<figure><svg/><figcaption>What it shows</figcaption></figure>"));
  for (const char* outside : {"http:", "https:", "src=", "<link"})
    EXPECT_THAT(html, testing::Not(testing::HasSubstr(outside)));
}

TEST(Page, RowsMustFitTheirColumns) {
  EXPECT_THROW(to_markdown(Table{.columns = {{"a"}, {"b"}}, .rows = {{"1"}}}), Error);
}

TEST(Page, WritesEveryFile) {
  const auto folder = std::filesystem::temp_directory_path() / ("kvase-page-" + std::to_string(::getpid()));
  write_report((folder / "deep").string(), example());
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "deep"))
    names.push_back(entry.path().filename().string());
  EXPECT_THAT(names, testing::UnorderedElementsAre("plot.svg", "report.html", "report.md"));
  std::filesystem::remove_all(folder);
  EXPECT_THROW(write_file((folder / "none" / "file").string(), "text"), Error);
}

TEST(Markup, ControlCharactersBecomeSpaces) {
  EXPECT_EQ(escape_markup("a\x01"
                          "b\nc"),
            "a b\nc");
  EXPECT_EQ(escape_markdown("a\nb_c"), "a b\\_c");
}

}  // namespace
}  // namespace kvase::report
