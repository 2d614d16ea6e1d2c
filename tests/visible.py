"""Scripts and formulas for what is seen of a page: its width, colours of its texts."""

import numpy as np

# Colours of each text that is seen: its own, and those below it, from the top; and
# whether it is large, as WCAG 2.2 has it.
TEXTS = """
[...document.body.querySelectorAll('*')].filter(node =>
  [...node.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())
  && node.getClientRects().length && !node.closest('title, desc, defs')
  && node.checkVisibility({visibilityProperty: true, opacityProperty: true})
).map(node => {
  const style = getComputedStyle(node), below = [];
  let opacity = 1;
  for (let up = node; up; up = up.parentElement) {
    const above = getComputedStyle(up);
    below.push(above.backgroundColor);
    opacity *= above.opacity;
  }
  const color = node instanceof SVGElement ? style.fill : style.color;
  const size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
  return [node.textContent.trim().slice(0, 40), large, color, opacity, below];
})
"""


def beyond(root="document.body"):
    """A script for the elements that reach beyond the window and do not scroll."""
    return """(() => {
  const width = document.documentElement.clientWidth;
  const scrolls = node => node && (node.tagName === 'PRE'
    || /auto|scroll/.test(getComputedStyle(node).overflowX)
    || scrolls(node.parentElement));
  return [...ROOT.querySelectorAll('*')].filter(node => {
    const box = node.getBoundingClientRect();
    return box.width && (box.right > width + 0.5 || box.left < -0.5)
      && !scrolls(node.parentElement);
  }).map(node => node.tagName + ' ' + node.textContent.slice(0, 60));
})()""".replace("ROOT", root)


def components(color):
    """Return red, green, blue and opacity of rgb(...) or rgba(...)."""
    values = [float(x) for x in color.partition("(")[2].rstrip(")").split(",")]
    return np.array(values[:3]) / 255, values[3] if len(values) > 3 else 1.0


def luminance(color):
    """WCAG 2.2, relative luminance."""
    low, high = color / 12.92, ((color + 0.055) / 1.055) ** 2.4
    return float(np.where(color <= 0.04045, low, high) @ (0.2126, 0.7152, 0.0722))


def contrast(color, opacity, below):
    """WCAG 2.2, contrast of a text with what is below it."""
    back = np.ones(3)
    for color_below in reversed(below):
        layer, cover = components(color_below)
        back = cover * layer + (1 - cover) * back
    front, cover = components(color)
    front = opacity * cover * front + (1 - opacity * cover) * back
    darker, lighter = sorted((luminance(front), luminance(back)))
    return (lighter + 0.05) / (darker + 0.05)


def faint(texts, least=4.5, least_of_large=4.5):
    """Return the texts of `TEXTS` whose contrast is too low, each with it."""
    return [
        (text, colours[0], ratio)
        for text, large, *colours in texts
        if (ratio := contrast(*colours)) < (least_of_large if large else least)
    ]


def is_light(browser):
    """Whether the page that is open has a light ground."""
    page = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    return luminance(components(page)[0]) > 0.5
