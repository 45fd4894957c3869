import { FONT } from "./font";
import { INK, type Scene } from "./scene";

/** The scene painted `times` as large, as a PNG file. */
export function pngOf(scene: Scene, times: number): Promise<Blob> {
  const canvas = document.createElement("canvas");
  canvas.width = scene.width * times;
  canvas.height = scene.height * times;
  const pen = canvas.getContext("2d");
  if (!pen) return Promise.reject(new Error("this browser has no canvas"));
  pen.scale(times, times);
  pen.fillStyle = INK.ground;
  pen.fillRect(0, 0, scene.width, scene.height);
  for (const mark of scene.marks) {
    switch (mark.mark) {
      case "box":
        pen.fillStyle = mark.fill;
        pen.fillRect(mark.x, mark.y, mark.w, mark.h);
        break;
      case "hatch":
        strokes(pen, mark);
        break;
      case "dashes":
        pen.strokeStyle = INK.line;
        pen.lineWidth = 1;
        pen.setLineDash([2, 3]);
        pen.strokeRect(mark.x + 0.5, mark.y + 0.5, mark.w - 1, mark.h - 1);
        pen.setLineDash([]);
        break;
      case "text":
        pen.font = `${mark.size}px ${FONT}`;
        pen.fillStyle = mark.fill;
        pen.textAlign = mark.anchor === "middle" ? "center" : mark.anchor;
        pen.fillText(mark.text, mark.x, mark.y);
    }
  }
  return new Promise((done, fail) =>
    canvas.toBlob(
      (blob) => (blob ? done(blob) : fail(new Error("the picture is too large"))),
      "image/png",
    ),
  );
}

function strokes(
  pen: CanvasRenderingContext2D,
  { x, y, w, h }: { x: number; y: number; w: number; h: number },
): void {
  pen.save();
  pen.beginPath();
  pen.rect(x, y, w, h);
  pen.clip();
  pen.strokeStyle = INK.line;
  pen.lineWidth = 1.5;
  pen.beginPath();
  for (let d = 0; d < w + h; d += 8) {
    pen.moveTo(x + d, y);
    pen.lineTo(x + d - h, y + h);
  }
  pen.stroke();
  pen.restore();
}
