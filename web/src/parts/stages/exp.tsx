/** e to the power of a number. */
export function Exp({ of }: { of: string }) {
  return (
    <span>
      e<sup>{of}</sup>
    </span>
  );
}
