// Saves the views of a comparison as pictures.

import { FONT } from "../base/canvas.js";
import { themeColors } from "../base/colors.js";
import { savePicture } from "../base/pictures.js";
import { state } from "../base/state.js";
import { TEXT } from "../base/strings.js";

const words = TEXT.compare;
const HEAD = 24;

// what: "answers", "grid", "cards" or "large"; shown: the views; found: the comparison.
export function saveComparison(what, kind, shown, found) {
  const titles = {
    answers: words.answersTitle,
    grid: words.headsTitle,
    cards: words.cardsTitle,
    large: words.one(shown.one.layer, TEXT.headName(shown.one.head)),
  };
  if (what === "answers" && !shown.answers.answers) return;
  const view = what === "large" ? { drawWhole: drawBeside(shown.large) } : shown[what];
  const names = ["a", "b"].map((side) => modelName(found[side]));
  const caption = Object.values(state.texts).join(" · ");
  savePicture(kind, view, `${words.title(...names)}: ${titles[what]}`, caption);
}

// Draws the names of A, B and their difference above columns; returns the height.
export function drawColumns(context, places) {
  context.font = `12px ${FONT}`;
  context.textAlign = "left";
  context.textBaseline = "top";
  context.fillStyle = themeColors().faint;
  [words.a, words.b, words.difference].forEach((name, number) => context.fillText(name, places[number], 0));
  return HEAD;
}

// The three large maps side by side.
function drawBeside(maps) {
  return (context, width) => {
    const each = (width - 40) / 3;
    const top = drawColumns(context, [0, each + 20, 2 * (each + 20)]);
    let height = 0;
    maps.forEach((map, number) => {
      context.save();
      context.translate(number * (each + 20), top);
      height = Math.max(height, map.drawWhole(context, each));
      context.restore();
    });
    return top + height;
  };
}

function modelName({ run, checkpoint, tflite }) {
  if (checkpoint !== null) return `${run} (${words.checkpoint(checkpoint)})`;
  return tflite === null ? run : `${run} (${words.tflite(tflite)})`;
}
