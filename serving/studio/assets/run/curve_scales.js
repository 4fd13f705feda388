// Scales of the curves' charts: places of values, ticks, and curves of many points made thin.

export const HEIGHT = 190;
export const EDGES = { left: 52, right: 12, top: 10, bottom: 26 };
const MOST_BUCKETS = 1000;

// Places of values in a chart, and its ticks; null if there are no points.
export function makeScales(series, width, isLogarithmic) {
  const points = series.flatMap((of) => of.drawn);
  if (!points.length) return null;
  const [least, most] = range(points.map(([x]) => x));
  const to = isLogarithmic ? Math.log10 : (value) => value;
  const [low, high] = widen(range(points.map(([, y]) => to(y))));
  const [inner, tall] = [width - EDGES.left - EDGES.right, HEIGHT - EDGES.top - EDGES.bottom];
  return {
    least,
    most,
    x: (value) => EDGES.left + ((value - least) / (most - least || 1)) * inner,
    y: (value) => EDGES.top + (1 - (to(value) - low) / (high - low || 1)) * tall,
    invert: (offset) => Math.max(least, Math.min(most, least + ((offset - EDGES.left) / inner) * (most - least))),
    xTicks: niceTicks(least, most, Math.max(2, inner / 90)),
    yTicks: isLogarithmic ? logarithmicTicks(low, high) : niceTicks(low, high, 4),
  };
}

// Keeps of each bucket of points the least and the largest, so that a curve of many
// looks the same, and the last point.
export function thin(points) {
  const size = Math.ceil(points.length / MOST_BUCKETS);
  if (size < 3) return points;
  const found = [points[0]];
  for (let from = 0; from < points.length; from += size) {
    const bucket = points.slice(from, from + size);
    let [low, high] = [0, 0];
    bucket.forEach(([, y], at) => {
      if (y < bucket[low][1]) low = at;
      if (y > bucket[high][1]) high = at;
    });
    found.push(...[...new Set([low, high].sort((a, b) => a - b))].map((at) => bucket[at]));
  }
  if (found.at(-1) !== points.at(-1)) found.push(points.at(-1));
  return found;
}

function range(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low === high ? [low - Math.abs(low) * 0.1 - 1e-9, high + Math.abs(high) * 0.1 + 1e-9] : [low, high];
}

// Room above and below the curves.
function widen([low, high]) {
  const room = 0.05 * (high - low);
  return [low - room, high + room];
}

function niceTicks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((times) => times * power >= rough) ?? 10);
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high + step * 1e-9; at++) found.push(at * step);
  return found;
}

// At 1, 2 and 5 of each power of ten, or at powers of ten only if these are many.
function logarithmicTicks(low, high) {
  const isWide = high - low > 2;
  const step = isWide ? Math.ceil((high - low) / 5) : 1;
  const found = [];
  for (let power = Math.floor(low); power <= high; power += step) {
    for (const times of isWide ? [1] : [1, 2, 5]) found.push(times * 10 ** power);
  }
  const shown = found.filter((value) => Math.log10(value) >= low && Math.log10(value) <= high);
  return shown.length ? shown : [10 ** low, 10 ** high];
}

export function formatTick(value) {
  const size = Math.abs(value);
  if (size >= 1e4) return value.toLocaleString("en", { notation: "compact", maximumFractionDigits: 1 });
  if (size && size < 0.001) return value.toExponential(0);
  return String(Number(value.toPrecision(3)));
}

export function nearest(points, x) {
  return points.reduce((best, point) => (Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best));
}
