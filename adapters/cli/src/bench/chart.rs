//! The image of a measurement: latencies by percentile, a group of bars for each concurrency.

use std::fmt::Write;

use super::sample::{PERCENTILES, Sample, time};

const HEIGHT: usize = 320;
const GROUP: usize = 170;
const COLORS: [&str; 5] = ["#9db8f5", "#6e95f0", "#2563eb", "#c2790b", "#d92d20"];

/// Returns a text for XML.
fn escape(text: &str) -> String {
    let plain = |letter: char| match letter {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        letter if letter.is_control() => String::new(),
        letter => letter.to_string(),
    };
    text.chars().take(120).map(plain).collect()
}

/// Returns the image. The scale of the bars is logarithmic, from the half of the smallest latency.
pub(super) fn svg(tool: &str, samples: &[Sample]) -> String {
    let width = 60 + samples.len().max(2) * GROUP;
    let all =
        || samples.iter().flat_map(|sample| PERCENTILES.iter().map(|(_, share)| sample.percentile(*share).max(1)));
    let low = (all().min().unwrap_or(1) as f64 / 2.0).ln();
    let high = (all().max().unwrap_or(2) as f64).ln().max(low + 1.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{HEIGHT}\" viewBox=\"0 0 {width} \
         {HEIGHT}\">\n<style>text{{font:11px sans-serif;fill:#1d2430}}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"16\" y=\"22\" style=\"font-size:14px\">Latency of {}, logarithmic</text>\n",
        escape(tool)
    );
    for (number, sample) in samples.iter().enumerate() {
        let left = 30 + number * GROUP;
        for (bar, (name, share)) in PERCENTILES.iter().enumerate() {
            let nanos = sample.percentile(*share);
            let high = ((nanos.max(1) as f64).ln() - low) / (high - low) * 180.0;
            let (x, y) = (left + bar * 29, 250.0 - high);
            let color = COLORS[bar];
            let _ = write!(
                out,
                "<rect x=\"{x}\" y=\"{y:.1}\" width=\"24\" height=\"{high:.1}\" fill=\"{color}\">\
                 <title>{name} {}</title></rect>\n\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"middle\" style=\"font-size:9px\">{}</text>\n\
                 <text x=\"{}\" y=\"263\" text-anchor=\"middle\" style=\"font-size:9px\">{name}</text>\n",
                time(nanos),
                x + 12,
                y - 4.0,
                time(nanos),
                x + 12,
            );
        }
        let _ = writeln!(
            out,
            "<text x=\"{left}\" y=\"284\">{} at once: {:.0} calls/s</text>",
            sample.concurrency,
            sample.rate()
        );
    }
    out + "</svg>\n"
}
