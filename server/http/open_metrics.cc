// SPDX-License-Identifier: MIT
#include "server/http/open_metrics.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

#include "core/base/text.h"

namespace uopd::http {
namespace {

constexpr std::string_view kTotal = "_total";

// Bytes that are no UTF-8 would make the whole page invalid: each becomes '?'. All names and almost
// all values are ASCII, so nothing else is let through.
void AppendEscaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (c == '\\' || c == '"') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else {
      out += static_cast<unsigned char>(c) < 0x80 ? c : '?';
    }
  }
}

void AppendLabel(std::string& out, std::string_view name, std::string_view value) {
  Append(out, out.back() == '{' ? "" : ",", name, "=\"");
  AppendEscaped(out, value);
  out += '"';
}

void AppendNumber(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "NaN";
  } else if (std::isinf(value)) {
    out += value > 0 ? "+Inf" : "-Inf";
  } else {
    Append(out, value);
  }
}

// The standard wants 1.0 for a bound of 1, 0.0001 for one of 1e-4, and 1e-05 for one of 0.00001.
// Bounds have at most six digits, as in the other text of the metrics.
std::string BoundText(double bound) {
  if (std::isinf(bound)) return "+Inf";
  char text[32];
  std::snprintf(text, sizeof text, "%g", bound);
  std::string out = text;
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

class Writer {
 public:
  std::string Write(std::span<const FamilySnapshot> families) {
    for (const FamilySnapshot& family : families) WriteFamily(family);
    return std::move(out_) + "# EOF\n";
  }

 private:
  void WriteFamily(const FamilySnapshot& family) {
    const bool counter = family.kind != MetricKind::kGauge && family.kind != MetricKind::kHistogram;
    std::string_view name = family.name;
    if (counter) name.remove_suffix(name.ends_with(kTotal) ? kTotal.size() : 0);
    const char* type = counter                             ? "counter"
                       : family.kind == MetricKind::kGauge ? "gauge"
                                                           : "histogram";
    Append(out_, "# TYPE ", name, " ", type, "\n");
    for (const std::string_view unit : {"seconds", "bytes"}) {
      if (name.ends_with(Cat("_", unit))) Append(out_, "# UNIT ", name, " ", unit, "\n");
    }
    Append(out_, "# HELP ", name, " ");
    AppendEscaped(out_, family.help);
    out_ += '\n';
    for (const SeriesSnapshot& series : family.series) {
      if (family.kind == MetricKind::kHistogram) {
        WriteHistogram(family, series);
      } else {
        Sample(name, counter ? kTotal : "", family, series, series.value);
      }
    }
  }

  void WriteHistogram(const FamilySnapshot& family, const SeriesSnapshot& series) {
    uint64_t cumulative = 0;
    for (size_t i = 0; i < series.bucket_counts.size(); ++i) {
      cumulative += series.bucket_counts[i];
      const double bound =
          i < family.bounds.size() ? family.bounds[i] : std::numeric_limits<double>::infinity();
      Begin(family.name, "_bucket", family, series, BoundText(bound));
      Append(out_, cumulative);
      if (i < series.exemplars.size() && series.exemplars[i]) WriteExemplar(*series.exemplars[i]);
      out_ += '\n';
    }
    Begin(family.name, "_count", family, series, "");
    Append(out_, series.count, "\n");
    Sample(family.name, "_sum", family, series, series.sum);
  }

  void WriteExemplar(const Exemplar& exemplar) {
    out_ += " # {";
    AppendLabel(out_, exemplar.label, exemplar.id);
    out_ += "} ";
    AppendNumber(out_, exemplar.value);
    out_ += ' ';
    AppendNumber(out_, exemplar.time_s);
  }

  void Sample(std::string_view name, std::string_view suffix, const FamilySnapshot& family,
              const SeriesSnapshot& series, double value) {
    Begin(name, suffix, family, series, "");
    AppendNumber(out_, value);
    out_ += '\n';
  }

  // The name and the labels. `le` empty: no such label.
  void Begin(std::string_view name, std::string_view suffix, const FamilySnapshot& family,
             const SeriesSnapshot& series, std::string_view le) {
    Append(out_, name, suffix);
    if (!family.label_names.empty() || !le.empty()) {
      out_ += '{';
      for (size_t i = 0; i < family.label_names.size(); ++i) {
        AppendLabel(out_, family.label_names[i], series.label_values[i]);
      }
      if (!le.empty()) AppendLabel(out_, "le", le);
      out_ += '}';
    }
    out_ += ' ';
  }

  std::string out_;
};

}  // namespace

std::string OpenMetricsText(std::span<const FamilySnapshot> families) {
  return Writer().Write(families);
}

namespace {

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

// Takes the part of `*rest` before the separator, and the separator, away from it.
std::string_view Next(std::string_view* rest, std::string_view separator) {
  const size_t end = std::min(rest->find(separator), rest->size());
  const std::string_view part = rest->substr(0, end);
  rest->remove_prefix(std::min(end + separator.size(), rest->size()));
  return part;
}

// 0 for a text that is no weight: the entry then counts as not acceptable.
double Weight(std::string_view text) {
  double q = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), q, std::chars_format::fixed);
  const bool valid = error == std::errc() && end == text.data() + text.size() && q >= 0 && q <= 1;
  return valid ? q : 0;
}

struct Range {
  std::string_view type;
  std::string_view version;  // empty: any
  double q = 1;
};

Range Parse(std::string_view entry) {
  Range out;
  out.type = Trim(Next(&entry, ";"));
  while (!entry.empty()) {
    std::string_view value = Trim(Next(&entry, ";"));
    const std::string_view name = Trim(Next(&value, "="));
    value = Trim(value);
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
      value = value.substr(1, value.size() - 2);
    }
    if (EqualsIgnoringCase(name, "q")) out.q = Weight(value);
    if (EqualsIgnoringCase(name, "version")) out.version = value;
  }
  return out;
}

}  // namespace

bool PrefersOpenMetrics(std::string_view head) {
  double open_metrics = 0, text = 0, any = 0;
  bool names_text = false;
  Next(&head, "\r\n");  // the request line
  while (!head.empty()) {
    std::string_view value = Next(&head, "\r\n");
    if (!EqualsIgnoringCase(Next(&value, ":"), "accept")) continue;
    while (!value.empty()) {
      const Range range = Parse(Next(&value, ","));
      if (EqualsIgnoringCase(range.type, "application/openmetrics-text")) {
        const bool known =
            range.version.empty() || range.version == "1.0.0" || range.version == "0.0.1";
        if (known) open_metrics = std::max(open_metrics, range.q);
      } else if (EqualsIgnoringCase(range.type, "text/plain") ||
                 EqualsIgnoringCase(range.type, "text/*")) {
        names_text = true;
        text = std::max(text, range.q);
      } else if (range.type == "*/*") {
        any = std::max(any, range.q);
      }
    }
  }
  return open_metrics > 0 && open_metrics >= (names_text ? text : any);
}

}  // namespace uopd::http
