package reproducible

import (
	"math"
	"strconv"
)

// This file contains logarithm, exponential and log-gamma with the same bits on every architecture. Package math does not guarantee that:
// math.Exp is written in assembly on amd64, arm64 and s390x, and on arm64 the compiler computes x*y+z with only one rounding. Frexp,
// Ldexp, Floor and Sqrt are exact everywhere.

// Mul returns a*b, rounded. The explicit conversion prevents the compiler from fusing the product with a later sum (language
// specification).
func Mul(a, b float64) float64 { return float64(a * b) }

const (
	ln2Hi = 6.93147180369123816490e-01
	ln2Lo = 1.90821492927058770002e-10
)

// ln returns the natural logarithm of finite x > 0 within 1 ulp. Method and coefficients: FreeBSD msun e_log.c, copyright 1993 Sun
// Microsystems, free to use with this notice.
func ln(x float64) float64 {
	frac, exp := math.Frexp(x)
	if frac < math.Sqrt2/2 {
		frac *= 2
		exp--
	}
	f, k := frac-1, float64(exp)
	s := f / (2 + f)
	s2 := Mul(s, s)
	s4 := Mul(s2, s2)
	t1 := Mul(s2, horner(s4, 6.666666666666735130e-01, 2.857142874366239149e-01, 1.818357216161805012e-01, 1.479819860511658591e-01))
	t2 := Mul(s4, horner(s4, 3.999999999940941908e-01, 2.222219843214978396e-01, 1.531383769920937332e-01))
	half := Mul(0.5, Mul(f, f))
	return Mul(k, ln2Hi) - ((half - (Mul(s, half+(t1+t2)) + Mul(k, ln2Lo))) - f)
}

// exp returns e to the power of x within 1 ulp: 0 below about -745, +Inf above about 709. Method and coefficients: FreeBSD msun e_exp.c,
// copyright 2004 Sun Microsystems, free to use with this notice.
func exp(x float64) float64 {
	if x > 709.78 {
		return math.Inf(1)
	}
	if x < -745.13 {
		return 0
	}
	k := math.Floor(Mul(x, math.Log2E) + 0.5)
	hi, lo := x-Mul(k, ln2Hi), Mul(k, ln2Lo)
	r := hi - lo
	t := Mul(r, r)
	c := r - Mul(t, horner(t, 1.66666666666666657415e-01, -2.77777777770155933842e-03, 6.61375632143793436117e-05,
		-1.65339022054652515390e-06, 4.13813679705723846039e-08))
	y := 1 - ((lo - Mul(r, c)/(2-c)) - hi)
	return math.Ldexp(y, int(k))
}

// horner returns c[0] + c[1] x + c[2] x^2 + ...
func horner(x float64, c ...float64) float64 {
	y := c[len(c)-1]
	for i := len(c) - 2; i >= 0; i-- {
		y = Mul(y, x) + c[i]
	}
	return y
}

// lnGamma returns the logarithm of the gamma function for x >= 1. From 10 on, it uses Stirling's series (Abramowitz and Stegun 6.1.41). It
// first increases a smaller x to at least 10 with the recurrence of the gamma function.
func lnGamma(x float64) float64 {
	product := 1.0
	for x < 10 {
		product = Mul(product, x)
		x++
	}
	inv := 1 / x
	series := Mul(inv, horner(Mul(inv, inv), 1.0/12, -1.0/360, 1.0/1260, -1.0/1680, 1.0/1188))
	return Mul(x-0.5, ln(x)) - x + 0.91893853320467274178 + series - ln(product)
}

// ThreeDigits returns the number with three significant digits that is nearest to v, without a floating-point error: 0.07 for
// 0.07000000000000001. Of two equally near numbers it returns the one with the even last digit.
func ThreeDigits(v float64) float64 {
	out, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	if err != nil {
		return v
	}
	return out
}
