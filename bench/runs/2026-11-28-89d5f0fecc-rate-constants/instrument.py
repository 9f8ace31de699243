"""Makes the constants of crates/rate scalable at run time: SENS=<number>:<factor> (see ids.txt)."""
import re, glob, sys
root = 'crates/rate/src/'
TYPES = {'u64': 'u', 'u32': 'v', 'f64': 'f', 'Span': 'span', 'Rate': 'rate', 'Ratio': 'ratio'}
SKIP = {'FIRST', 'SHARE_UNIT', 'OLDEST'}
decl = re.compile(r'^(pub\(super\) )?const ([A-Z_]+): (' + '|'.join(TYPES) + r') =\s*([^;]*);$', re.M)
ids = []
files = [f for f in sorted(glob.glob(root + '**/*.rs', recursive=True)) if 'tests' not in f]
found = {f: [m for m in decl.finditer(open(f).read().split('#[cfg(test)]\nmod tests {')[0]) if m[2] not in SKIP] for f in files}
def use(text, name):
    out = []
    for line in text.split('\n'):
        if line.startswith('use '):
            line = re.sub(r'\b' + name + r'\b', name + '__', line)
        elif not line.strip().startswith('//') and not re.match(r'(pub(\(super\))? )?(const|fn) ' + name, line):
            line = re.sub(r'(?<![\w:])' + name + r'(?![\w])', name + '__()', line)
        out.append(line)
    return '\n'.join(out)
for f, ms in found.items():
    text = open(f).read()
    for m in ms:
        vis, name, ty, val = m[1] or '', m[2], m[3], m[4]
        i = len(ids); ids.append(f'{i} {f[len(root):]} {name} {ty} {val}')
        text = text.replace(m[0], f'{vis}const {name}__D: {ty} = {val};\n#[allow(non_snake_case)]\n{vis}fn {name}__() -> {ty} {{ crate::sens::{TYPES[ty]}({i}, {name}__D) }}')
        text = use(text, name)
    open(f, 'w').write(text)
for f, names in {'bundle/climb.rs': ['CLOSE_INTERVAL', 'FULL_RATE', 'TRAIN_LENGTH', 'SHORTEST_TRAIN'], 'bundle/search.rs': ['FULL_RATE'],
                 'path_ceiling/tests.rs': ['LEAST_PACKETS', 'FALLEN_PROBE_DIVISOR'], 'controller/tests.rs': ['TICK', 'LEAST_CEILING'],
                 'disk_ceiling/tests.rs': ['LEAST_CEILING']}.items():
    text = open(root + f).read()
    for name in names: text = use(text, name)
    open(root + f, 'w').write(text)
open(root + 'sens.rs', 'w').write('''
use std::sync::OnceLock;
use icdc_units::{Rate, Ratio, Span};
static SENS: OnceLock<(u32, f64)> = OnceLock::new();
fn get(id: u32) -> Option<f64> {
    let (which, factor) = *SENS.get_or_init(|| {
        let text = std::env::var("SENS").unwrap_or_default();
        match text.split_once(':') { Some((a, b)) => (a.parse().unwrap(), b.parse().unwrap()), None => (u32::MAX, 1.0) }
    });
    (which == id).then_some(factor)
}
pub fn u(id: u32, d: u64) -> u64 { get(id).map_or(d, |f| ((d as f64 * f).round() as u64).max(1)) }
pub fn v(id: u32, d: u32) -> u32 { get(id).map_or(d, |f| ((d as f64 * f).round() as u32).max(1)) }
pub fn f(id: u32, d: f64) -> f64 { get(id).map_or(d, |f| d * f) }
pub fn span(id: u32, d: Span) -> Span { get(id).map_or(d, |f| Span::from_nanos((d.as_nanos() as f64 * f) as u64)) }
pub fn rate(id: u32, d: Rate) -> Rate { get(id).map_or(d, |f| Rate::from_bits_per_second((d.as_bits_per_second() as f64 * f) as u64)) }
/// The distance from 1 of ratios above 0.6; smaller ratios themselves.
pub fn ratio(id: u32, d: Ratio) -> Ratio {
    get(id).map_or(d, |f| {
        let r = (1_000_000_u64 * d) as f64 / 1e6;
        let to = if r > 0.6 { 1.0 - (1.0 - r) * f } else { r * f };
        Ratio::new((to * 1e6).round() as u64, 1_000_000)
    })
}
''')
t = open(root + 'lib.rs').read(); open(root + 'lib.rs', 'w').write(t.replace('pub mod bundle;', 'mod sens;\npub mod bundle;'))
open('ids.txt', 'w').write('\n'.join(ids))
