//! Line charts with logarithmic axes.

use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 360.0;
/// The edges of the plot.
const LEFT: f64 = 80.0;
const RIGHT: f64 = 530.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 310.0;
const COLOURS: [&str; 6] = ["#c0392b", "#2471a3", "#1e8449", "#b9770e", "#7d3c98", "#566573"];

/// A line with its name.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Draws a chart with lines and the marks of its horizontal axis.
pub(crate) fn draw(title: &str, (across, up): (&str, &str), marks: &[(f64, String)], lines: &[Line]) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let lowest = points().map(|point| point.1.log10()).fold(f64::MAX, f64::min).floor();
    let highest = points().map(|point| point.1.log10()).fold(f64::MIN, f64::max).ceil().max(lowest + 1.0);
    let first = points().map(|point| point.0.log10()).fold(f64::MAX, f64::min);
    let last = points().map(|point| point.0.log10()).fold(f64::MIN, f64::max);
    let x = |value: f64| LEFT + (value.log10() - first) / (last - first) * (RIGHT - LEFT);
    let y = |log: f64| BOTTOM - (log - lowest) / (highest - lowest) * (BOTTOM - TOP);
    let (middle, centre) = (f64::midpoint(LEFT, RIGHT), f64::midpoint(TOP, BOTTOM));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{title}</text>\n\
         <text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{across}</text>\n\
         <text transform=\"translate(16 {centre}) rotate(-90)\" text-anchor=\"middle\">{up}</text>\n",
        HEIGHT - 10.0,
    );
    let mut text = |x: f64, y: f64, anchor: &str, text: &str| {
        let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
    };
    let mut grid = String::new();
    let mut log = lowest;
    while log <= highest {
        text(LEFT - 8.0, y(log) + 4.0, "end", &short(10f64.powf(log)));
        let _ = writeln!(grid, "<path d=\"M{LEFT} {:.1}H{RIGHT}\" stroke=\"#ddd\"/>", y(log));
        log += 1.0;
    }
    for (value, label) in marks {
        text(x(*value), BOTTOM + 18.0, "middle", label);
    }
    let mut height = TOP;
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        height += 20.0;
        text(RIGHT + 30.0, height, "start", &line.name);
        let path: Vec<_> =
            line.points.iter().map(|point| format!("{:.1} {:.1}", x(point.0), y(point.1.log10()))).collect();
        let (path, key) = (path.join("L"), height - 4.0);
        let _ = writeln!(grid, "<path d=\"M{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>");
        let _ = writeln!(grid, "<path d=\"M{} {key}h14\" stroke=\"{colour}\" stroke-width=\"4\"/>", RIGHT + 12.0);
    }
    svg + &grid + "</svg>\n"
}

fn short(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{} M", value / 1e6),
        value if value >= 1e3 => format!("{} k", value / 1e3),
        value => format!("{value}"),
    }
}
