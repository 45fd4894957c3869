import { useExplorer } from "../../explorer/explorer";
import { fixed } from "../../logic/numbers";
import { Bars } from "./bars";
import { useCell } from "./use-cell";

/** The dot product taken apart: question, label, and what each pair of numbers adds. */
export function Products() {
  const { t, heads } = useExplorer();
  const cell = useCell();
  if (!cell || heads.length > 1) return null;
  const products = cell.q.map((x, i) => x * cell.k[i]!);
  return (
    <div class="products">
      <Bars name={`q${cell.row + 1}`} numbers={cell.q} />
      <Bars name={`k${cell.col + 1}`} numbers={cell.k} />
      <Bars
        name={`q${cell.row + 1} × k${cell.col + 1}: ${t.stages.sum} ${fixed(cell.dot)}`}
        numbers={products}
      />
    </div>
  );
}
