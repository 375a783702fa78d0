// SPDX-License-Identifier: Apache-2.0

// Prints rows of random quantities and semantic versions with the answers of the packages that
// Kubernetes uses. tests/unit/values_rows_test.c reads them; see README.md beside this file.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"math"
	"math/rand"
	"os"
	"strings"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/api/resource"
)

type generator struct{ *rand.Rand }

func (g generator) pick(words ...string) string { return words[g.Intn(len(words))] }

func (g generator) digits(most int) string {
	var b strings.Builder
	for n := g.Intn(most + 1); n > 0; n-- {
		b.WriteByte(byte('0' + g.Intn(10)))
	}
	return b.String()
}

// number: mostly ordinary, often near a limit, sometimes odd.
func (g generator) number() string {
	switch g.Intn(10) {
	case 0:
		return g.pick("9223372036854775807", "9223372036854775808", "9223372036854775", "999999999999999999",
			"1000000000000000000", "4611686018427387904", "1024", "1023", "1", "0", "1000", "10", "100", "001", "999")
	case 1:
		return g.digits(25) + g.pick("", ".") + g.digits(25)
	case 2:
		return g.digits(4) + strings.Repeat("0", g.Intn(20))
	case 3:
		return g.pick("0", "") + "." + strings.Repeat("0", g.Intn(12)) + g.digits(12)
	default:
		n := g.digits(6)
		if g.Intn(3) == 0 {
			n += "." + g.digits(5)
		}
		return n
	}
}

func (g generator) suffix() string {
	switch g.Intn(8) {
	case 0:
		return fmt.Sprintf("%s%s%d", g.pick("e", "E"), g.pick("", "+", "-"), g.Intn(31))
	case 1:
		return g.pick("e", "E", "i", "ki", "KI", "Ke3", "e3i", "mm", "e-", "e400", "e-400", "e+-3", "e007", "nm", "µ", " ", "e99999999999999999999")
	case 2, 3:
		return ""
	default:
		return g.pick("n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
	}
}

func (g generator) quantity() string {
	return g.pick("", "", "", "", "-", "+") + g.number() + g.suffix()
}

func (g generator) identifier() string {
	switch g.Intn(6) {
	case 0:
		return g.pick("alpha", "beta", "rc", "x-y", "-", "0a", "00", "01", "", "é", "a_b")
	case 1:
		return g.pick("18446744073709551615", "18446744073709551616", "0", "1")
	default:
		return g.digits(3)
	}
}

func (g generator) part() string {
	switch g.Intn(12) {
	case 0:
		return g.pick("", "00", "01", "x", "-1", "18446744073709551615", "18446744073709551616")
	default:
		return fmt.Sprint(g.Intn(12))
	}
}

func (g generator) version() string {
	v := g.pick("", "", "", "", "", "v") + g.part()
	for n := g.pick("2", "2", "2", "2", "2", "1", "0", "3"); n != "0"; n = string(n[0] - 1) {
		v += "." + g.part()
	}
	for _, mark := range []string{"-", "+"} {
		if g.Intn(3) == 0 {
			v += mark + g.identifier()
			for g.Intn(2) == 0 {
				v += "." + g.identifier()
			}
		}
	}
	return v
}

func whole(q resource.Quantity) string {
	if v, ok := q.AsInt64(); ok {
		return fmt.Sprint(v)
	}
	return "-"
}

func canonical(q resource.Quantity) string {
	number, suffix := q.CanonicalizeBytes(nil)
	return string(number) + string(suffix)
}

func rounded(q resource.Quantity, scale resource.Scale) string {
	q = q.DeepCopy()
	exact := q.RoundUp(scale)
	return fmt.Sprintf("%v:%s", exact, q.String())
}

func quantityRow(a, b string) []string {
	row := []string{"q", a, b}
	qa, err := resource.ParseQuantity(a)
	if err != nil {
		return append(row, "error", err.Error())
	}
	row = append(row, qa.String(), canonical(qa), whole(qa), fmt.Sprint(qa.Value()), fmt.Sprint(qa.MilliValue()),
		fmt.Sprint(qa.ScaledValue(3)), fmt.Sprint(qa.ScaledValue(-9)), fmt.Sprint(qa.ScaledValue(7)),
		fmt.Sprintf("%x", math.Float64bits(qa.AsApproximateFloat64())), fmt.Sprint(qa.Sign()),
		rounded(qa, 0), rounded(qa, -3), rounded(qa, 4))
	qb, err := resource.ParseQuantity(b)
	if err != nil {
		return row
	}
	sum, rest, neg := qa.DeepCopy(), qa.DeepCopy(), qa.DeepCopy()
	sum.Add(qb)
	rest.Sub(qb)
	neg.Neg()
	return append(row, fmt.Sprint(qa.Cmp(qb)), sum.String(), whole(sum), rest.String(), fmt.Sprint(rest.Value()), neg.String())
}

// tolerant is what Kubernetes' CEL library does for semver(text, true).
func tolerant(s string) (semver.Version, error) {
	s = strings.TrimPrefix(s, "v")
	if strings.TrimSpace(s) != s || strings.HasPrefix(s, "v") {
		return semver.Version{}, fmt.Errorf("not compared")
	}
	return semver.ParseTolerant(s)
}

func versionRow(a, b string) []string {
	row := []string{"s", a, b}
	if t, err := tolerant(a); err == nil {
		row = append(row, t.String())
	} else {
		row = append(row, "error")
	}
	va, err := semver.Parse(a)
	if err != nil {
		return append(row, "error", err.Error())
	}
	row = append(row, fmt.Sprint(va.Major), fmt.Sprint(va.Minor), fmt.Sprint(va.Patch), va.String())
	if vb, err := semver.Parse(b); err == nil {
		row = append(row, fmt.Sprint(va.Compare(vb)))
	}
	return row
}

func main() {
	rows := flag.Int("rows", 1000, "rows of each kind")
	seed := flag.Int64("seed", 1, "of the random texts")
	flag.Parse()
	g := generator{rand.New(rand.NewSource(*seed))}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for i := 0; i < *rows; i++ {
		fmt.Fprintln(out, strings.Join(quantityRow(g.quantity(), g.quantity()), "\t"))
		a, b := g.version(), g.version()
		if g.Intn(2) == 0 { // close relatives, so that comparison reaches the last part
			b = a + g.pick("", "-1", ".1", "+x", ".a")
		}
		fmt.Fprintln(out, strings.Join(versionRow(a, b), "\t"))
	}
}
