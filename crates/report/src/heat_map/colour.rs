//! The colour of a place on a scale: dark for little, light for much.
//!
//! Colours are made in OKLab (B. Ottosson, A perceptual color space for image processing, 2020), in
//! which equal steps look equally large: for a share s from 0 to 1
//!
//! ```text
//!   lightness  L = 0.30 + 0.64 s         so that order shows without colour, in print and to the colour-blind
//!   hue        h = 290° - 185° s         indigo, blue, teal, green, yellow
//!   chroma     C = 0.13, or as much less as sRGB can show at this L and h
//! ```
//!
//! They are the same on light and on dark pages: each cell brings its own background. What is
//! written on them is black or white, whichever stands out more (the contrast of WCAG 2, never
//! below 4.5).

/// OKLab lightness of the colours for the shares 0 and 1.
const LIGHTNESS: (f64, f64) = (0.30, 0.94);
/// Hue of the colours for the shares 0 and 1, in degrees.
const HUE_DEGREES: (f64, f64) = (290.0, 105.0);
/// Chroma of the colours, unless sRGB can show only less.
const CHROMA: f64 = 0.13;

/// A colour in linear sRGB, each part from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Colour([f64; 3]);

impl Colour {
    /// Colour for a position on a heat map's scale, from 0 (dark) to 1 (light).
    pub(super) fn of(share: f64) -> Self {
        let share = share.clamp(0.0, 1.0);
        let between = |(low, high): (f64, f64)| low + (high - low) * share;
        let (lightness, hue) = (between(LIGHTNESS), between(HUE_DEGREES).to_radians());
        let shown = |chroma: f64| {
            let parts = linear(lightness, chroma * hue.cos(), chroma * hue.sin());
            parts.iter().all(|part| (-1e-9..=1.0 + 1e-9).contains(part)).then_some(Self(parts))
        };
        let grey = || Self(linear(lightness, 0.0, 0.0));
        (0..=100).rev().find_map(|percent| shown(CHROMA * f64::from(percent) / 100.0)).unwrap_or_else(grey)
    }

    /// The colour in the notation `#rrggbb`.
    pub(super) fn hex(self) -> String {
        let [r, g, b] = self.0.map(|part| (encoded(part) * 255.0).round() as u8);
        format!("#{r:02x}{g:02x}{b:02x}")
    }

    /// Whether white text has more contrast on this colour than black text.
    pub(super) fn is_dark(self) -> bool {
        self.contrast(1.0) > self.contrast(0.0)
    }

    /// Contrast with a grey of this luminance (WCAG 2).
    fn contrast(self, luminance: f64) -> f64 {
        let own = self.luminance();
        (own.max(luminance) + 0.05) / (own.min(luminance) + 0.05)
    }

    /// Relative luminance of the colour, 0 to 1 (WCAG 2).
    fn luminance(self) -> f64 {
        let [r, g, b] = self.0;
        0.2126 * r + 0.7152 * g + 0.0722 * b
    }
}

/// Converts a colour from OKLab to linear sRGB, by the matrices of Ottosson's article.
fn linear(lightness: f64, a: f64, b: f64) -> [f64; 3] {
    let cube = |on_a: f64, on_b: f64| (lightness + on_a * a + on_b * b).powi(3);
    let l = cube(0.396_337_777_4, 0.215_803_757_3);
    let m = cube(-0.105_561_345_8, -0.063_854_172_8);
    let s = cube(-0.089_484_177_5, -1.291_485_548);
    [
        4.076_741_662_1 * l - 3.307_711_591_3 * m + 0.230_969_929_2 * s,
        -1.268_438_004_6 * l + 2.609_757_401_1 * m - 0.341_319_396_5 * s,
        -0.004_196_086_3 * l - 0.703_418_614_7 * m + 1.707_614_701 * s,
    ]
}

/// Transfer function of sRGB (IEC 61966-2-1): the value of a linear part of a colour as displays
/// take it, 0 to 1.
fn encoded(linear: f64) -> f64 {
    let linear = linear.clamp(0.0, 1.0);
    if linear <= 0.003_130_8 { linear * 12.92 } else { 1.055 * linear.powf(1.0 / 2.4) - 0.055 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Colour> {
        (0..=200).map(|step| Colour::of(f64::from(step) / 200.0)).collect()
    }

    #[test]
    fn more_is_lighter() {
        assert!(all().windows(2).all(|pair| pair[0].luminance() < pair[1].luminance()));
        assert_eq!(Colour::of(-1.0), Colour::of(0.0));
        assert_eq!(Colour::of(2.0), Colour::of(1.0));
    }

    #[test]
    fn words_stand_out_on_every_colour() {
        for colour in all() {
            let words = if colour.is_dark() { 1.0 } else { 0.0 };
            assert!(colour.contrast(words) >= 4.5, "{}: {}", colour.hex(), colour.contrast(words));
        }
    }

    #[test]
    fn white_and_black_are_what_they_are_in_the_source() {
        for (lightness, value) in [(0.0, 0.0), (1.0, 1.0)] {
            assert!(linear(lightness, 0.0, 0.0).iter().all(|part| (part - value).abs() < 1e-6));
        }
        assert_eq!(Colour([1.0, 0.0, 0.215_860_5]).hex(), "#ff0080");
    }
}
