// Uses a page as a reader would, and notes in attributes of its root what came of it.
(async () => {
  const page = document.documentElement.dataset, plot = document.querySelector("svg[data-time]");
  const place = () => document.querySelector(".zoom span").textContent;
  const line = () => plot.querySelector('[data-line="0"]').getAttribute("d");
  const redrawn = () => new Promise((done) => setTimeout(done, 50));
  const at = (share) => {
    const box = plot.getBoundingClientRect();
    return { clientX: box.left + 56 + share * (box.width - 70), clientY: box.top + 50, bubbles: true, cancelable: true };
  };

  // Drawn anew in the width of the static drawing, no coordinate differs by more than its rounding.
  const placeOf = (part) => part.getAttribute("d") ?? `${part.getAttribute("x")} ${part.getAttribute("y")}`;
  const drawing = () => [...document.querySelectorAll("svg path, svg text")].map((part) => [part.textContent, ...placeOf(part).split(/(?=[A-Za-z ])/)]);
  const number = (step) => Number(step.replace(/^[A-Za-z ]/, ""));
  const same = (one, two) => one === two || (one[0] === two[0] && Math.abs(number(one) - number(two)) < 0.11);
  const before = drawing(), still = line();
  for (const svg of document.querySelectorAll("figure > svg")) svg.style.width = "960px";
  dispatchEvent(new Event("resize"));
  await redrawn();
  const after = drawing();
  page.differs = before.length === after.length ? "" : "in the number of parts";
  before.forEach((part, index) => {
    const other = after[index] ?? [];
    const step = part.findIndex((step, k) => k >= other.length || !same(step, other[k]));
    if (step >= 0) page.differs ||= `part ${index}, step ${step} of ${part.length} and ${other.length}: ${part[step]}, ${other[step]}`;
  });

  plot.dispatchEvent(new WheelEvent("wheel", { ...at(0.5), deltaY: -700 }));
  await redrawn();
  page.wheel = line() !== still && line().length > 1000;

  plot.dispatchEvent(new MouseEvent("dblclick", at(0.5)));
  await redrawn();
  page.whole = place().includes("zoom");

  const mouse = (target, type, share) => target.dispatchEvent(new PointerEvent(type, { ...at(share), pointerType: "mouse" }));
  mouse(plot, "pointerdown", 0.25);
  mouse(window, "pointermove", 0.5);
  mouse(window, "pointerup", 0.5);
  await redrawn();
  page.picked = place();

  const finger = (type, pointerId, share) => plot.dispatchEvent(new PointerEvent(type, { ...at(share), pointerId, pointerType: "touch" }));
  finger("pointerdown", 1, 0.4);
  finger("pointerdown", 2, 0.6);
  finger("pointermove", 1, 0.0);
  finger("pointermove", 2, 1.0);
  finger("pointerup", 1, 0.0);
  finger("pointerup", 2, 1.0);
  await redrawn();
  page.pinched = place();

  document.querySelector('.zoom [aria-label="Later"]').click();
  await redrawn();
  page.later = place();
})();
