// SPDX-License-Identifier: Apache-2.0

// Prints strings and whether they have the formats that schemas of custom resources may name, as the package that
// kube-apiserver asks says: JSON lines {"format", "text", "holds"}.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"unicode/utf8"

	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

// Strings to begin with, good and nearly good.
var seeds = map[string][]string{
	"bsonobjectid":   {"507f1f77bcf86cd799439011", "507F1F77BCF86CD799439011"},
	"uri":            {"https://user:pw@example.com:8443/a/b?x=1&y=%20#top", "urn:isbn:0451450523", "/path", "mailto:a@b.c", "http://[::1]:80/", "*", "//host/x", "file:///etc/x", "http://a b/", "http://a/b c", "http://%41/", "ftp:x", "a", "http://h:p/"},
	"email":          {"jane@example.com", "Jane Doe <jane@example.com>", "\"Jane D.\" <jane@example.com>", "a.b+c@x.y.z", "jane@[127.0.0.1]", "<jane@example.com>", "jane@localhost", "(comment) a@b", "a@b (c)"},
	"hostname":       {"example.com", "a", "a-b.example.org", "xn--bcher-kva.example", "büro.example", "10.0.0.1", "a.b", "a.co", "a-.co", "localhost", "a_b.c", "under_score"},
	"ipv4":           {"192.168.1.1", "0.0.0.0", "255.255.255.255", "010.1.1.1", "::ffff:1.2.3.4", "1.2.3"},
	"ipv6":           {"::1", "2001:db8::8a2e:370:7334", "fe80::1%eth0", "::ffff:1.2.3.4", "1:2:3:4:5:6:7:8", "1::2::3"},
	"cidr":           {"10.0.0.0/8", "2001:db8::/32", "10.0.0.1/33", "::/129", "010.0.0.0/8", "::ffff:10.0.0.0/104", "10.0.0.0/08"},
	"mac":            {"00:1a:2B:3c:4d:5e", "00-1a-2b-3c-4d-5e", "001a.2b3c.4d5e", "02:00:5e:10:00:00:00:01", "00:1a:2b:3c:4d-5e"},
	"uuid":           {"6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6BA7B8109DAD11D180B400C04FD430C8", "{6ba7b810-9dad-11d1-80b4-00c04fd430c8}"},
	"uuid3":          {"6fa459ea-ee8a-3ca4-894e-db77e160355e", "6fa459eaee8a3ca4894edb77e160355e"},
	"uuid4":          {"16fd2706-8baf-433b-82eb-8c7fada847da", "16fd27068baf433b82eb8c7fada847da", "16fd2706-8baf-433b-c2eb-8c7fada847da"},
	"uuid5":          {"886313e1-3b8a-5372-9b90-0c9aee199e5d", "886313e13b8a53729b900c9aee199e5d"},
	"isbn":           {"0321751043", "978-0321751041", "0-321-75104-3", "080442957X", "9780321751041"},
	"isbn10":         {"0321751043", "0-321-75104-3", "080442957X", "3 401 01319 X"},
	"isbn13":         {"978-0321751041", "9780321751041", "978 3401013190", "979-10-90636-07-1"},
	"creditcard":     {"4111-1111-1111-1111", "4111 1111 1111 1111", "5500000000000004", "340000000000009", "6011000000000004", "30000000000004", "4222222222222", "2223000048400011"},
	"ssn":            {"111-11-1111", "111 11 1111", "111111111", "111-111111"},
	"hexcolor":       {"#FFFFFF", "fff", "#abc", "#abcd", "123456"},
	"rgbcolor":       {"rgb(100,100,100)", "rgb( 0 , 255 , 25 )", "rgb(256,0,0)", "rgb(01,2,3)", "rgb(199,9,90)"},
	"byte":           {"ZWxpemFiZXRocG9zZXk=", "", "YQ==", "YWI=", "YWJj", "YQ", "Y Q=="},
	"password":       {"secret", ""},
	"date":           {"2006-01-02", "2024-02-29", "2023-02-29", "2000-02-29", "1900-02-29", "0000-01-01", "9999-12-31", "2006-1-2", "2006-00-10", "2006-04-31"},
	"duration":       {"1h", "3m30s", "-1.5h", "+5ms", "22 ns", "1 day", "2 weeks", "10us", "10µs", "1w", "5 hours and more", "0", ".5s", "1.s", "", "1 sec", "1 second", "7 x", "3 days 4 hours", "100000000000000000000h", "9223372036854775807ns", "9223372036854775808ns"},
	"datetime":       {"2011-08-18T19:03:37.123000000+01:00", "2014-12-15T19:30:20.000Z", "2014-12-15t19:30:20z", "2014-12-15T19:30:20", "2014-12-15 19:30:20Z", "2014-12-15T24:00:00Z", "2014-12-15T23:59:60Z", "2014-12-15T19:30:20+25:99"},
	"date-time":      {"2011-08-18T19:03:37.1Z"},
	"k8s-short-name": {"a", "my-name", "0a", "-a", "a.b", "A", "a-"},
	"k8s-long-name":  {"a.b", "my-name.example.com", "a..b", "A.b", ".a"},
	"unknown":        {"x"},
}

// What is put into strings: what one format has, another one has not.
var pieces = []string{"0", "1", "9", "a", "f", "g", "F", "Z", "z", "T", "t", "X", "x", "-", ".", ":", "/", "%", "#", " ", "=", "+", "_", "@", "<", ">", "\"", ",", "(", ")", "[", "]", "s", "m", "h", "d", "w",
	"ü", "µ", "€", "\t", "\n", "\x00", "\x7f", "00", "12", "..", "--", "::", "ns", "ms", "é", "\\", "{", "}", "?", "&", "*", ";", "!", "'", "$"}

func spoil(r *rand.Rand, s string) string {
	for n := r.Intn(3); n >= 0; n-- {
		runes := []rune(s)
		at := r.Intn(len(runes) + 1)
		piece := []rune(pieces[r.Intn(len(pieces))])
		switch r.Intn(6) {
		case 0:
			s = string(runes[:at]) + string(piece) + string(runes[at:])
		case 1:
			if at < len(runes) {
				s = string(runes[:at]) + string(runes[at+1:])
			}
		case 2:
			if at < len(runes) {
				s = string(runes[:at]) + string(piece) + string(runes[at+1:])
			}
		case 3:
			s = string(runes[:at])
		case 4:
			if at < len(runes) && runes[at] >= '0' && runes[at] <= '9' {
				runes[at] = rune('0' + r.Intn(10))
				s = string(runes)
			}
		case 5:
			s = string(runes[:at]) + string(runes[at/2:at]) + string(runes[at:])
		}
	}
	return s
}

func main() {
	rows := flag.Int("rows", 3000, "how many")
	seed := flag.Int64("seed", 1, "of the random strings")
	flag.Parse()
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	r := rand.New(rand.NewSource(*seed))
	var names []string
	for name := range seeds {
		names = append(names, name)
	}
	for i := range names { // maps have no order, rows have one
		for k := i + 1; k < len(names); k++ {
			if names[k] < names[i] {
				names[i], names[k] = names[k], names[i]
			}
		}
	}
	write := func(format, text string) {
		if !utf8.ValidString(text) {
			return
		}
		holds := !strfmt.Default.ContainsName(format) || strfmt.Default.Validates(format, text)
		line, err := json.Marshal(map[string]any{"format": format, "text": text, "holds": holds})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		out.Write(append(line, '\n'))
	}
	for _, name := range names {
		for _, s := range seeds[name] {
			write(name, s)
		}
	}
	for i := 0; i < *rows; i++ {
		name := names[r.Intn(len(names))]
		from := name
		if r.Intn(10) == 0 {
			from = names[r.Intn(len(names))]
		}
		write(name, spoil(r, seeds[from][r.Intn(len(seeds[from]))]))
	}
}
