// Decodes little-endian float16 into float32 by a table of all 65,536 values.

const VALUES = new Float32Array(65536);
for (let bits = 0; bits < 65536; bits++) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) VALUES[bits] = sign * fraction * 2 ** -24;
  else if (exponent === 31) VALUES[bits] = fraction ? NaN : sign * Infinity;
  else VALUES[bits] = sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

export function decodeHalfFloats(buffer) {
  const halves = new Uint16Array(buffer); // all browsers' machines are little-endian
  const found = new Float32Array(halves.length);
  for (let place = 0; place < halves.length; place++) found[place] = VALUES[halves[place]];
  return found;
}
