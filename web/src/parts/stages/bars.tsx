import { fixed } from "../../logic/numbers";

/** A vector as bars above and below zero; pointing at one gives its number. */
export function Bars({ name, numbers }: { name: string; numbers: Float64Array }) {
  const reach = Math.max(1e-9, ...numbers.map(Math.abs));
  return (
    <figure class="vector">
      <svg preserveAspectRatio="none" viewBox={`0 0 ${numbers.length * 6} 32`} aria-hidden="true">
        <line x1="0" x2={numbers.length * 6} y1="16" y2="16" class="axis" />
        {[...numbers].map((x, i) => {
          const size = (Math.abs(x) / reach) * 15;
          return (
            <rect
              key={i}
              x={i * 6 + 1}
              y={x >= 0 ? 16 - size : 16}
              width="4"
              height={Math.max(0.5, size)}
            >
              <title>{`${name}[${i}] = ${fixed(x)}`}</title>
            </rect>
          );
        })}
      </svg>
      <figcaption>{name}</figcaption>
    </figure>
  );
}
