/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* Fixed point: a value in q16 is a number times 2^16. eBPF has neither floating point nor signed division. */
#ifndef ICDC_FIXED_H
#define ICDC_FIXED_H

#define Q16(number) ((u32)((number) * 65536.0 + 0.5))
#define Q16_ONE 65536U

/* log2(x), x >= 1; the error is below 2^-15. Each turn squares the mantissa: the carry is the next bit. */
static inline u32 log2_q16(u32 x)
{
	u32 whole = 0, fraction = 0;
	u64 mantissa;

	if (x >> 16)
		whole += 16;
	if (x >> (whole + 8))
		whole += 8;
	if (x >> (whole + 4))
		whole += 4;
	if (x >> (whole + 2))
		whole += 2;
	if (x >> (whole + 1))
		whole += 1;
	mantissa = (u64)x << (31 - whole);
	for (int bit = 0; bit < 16; bit++) {
		mantissa = mantissa * mantissa >> 31;
		fraction <<= 1;
		if (mantissa >> 32) {
			mantissa >>= 1;
			fraction |= 1;
		}
	}
	return (whole << 16) | fraction;
}

/* 2^x, x < 32; relative error below 2e-4: a cubic that meets 2^x at whole numbers. */
static inline u64 exp2_q16(u32 x)
{
	u64 f = x & 0xffff;
	u64 cubic = f * (Q16(0.224494) + (f * Q16(0.079440) >> 16)) >> 16;
	u64 power = Q16_ONE + (f * (Q16(0.696066) + cubic) >> 16);

	return power << (x >> 16 & 31);
}

#endif
