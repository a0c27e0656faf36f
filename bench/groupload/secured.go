package main

import (
	"bufio"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"flag"
	"fmt"
	"hash"
	"log"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Secured connections, configured by a file of Kafka's client properties: TLS with PEM files, SASL
// with PLAIN or SCRAM. Handshake and login come before the first measured request.

var commandConfig = flag.String("command-config", "", "file of Kafka's client properties: security.protocol, ssl.*, sasl.*")

var properties = sync.OnceValue(func() map[string]string {
	found := map[string]string{}
	if *commandConfig == "" {
		return found
	}
	text, err := os.ReadFile(*commandConfig)
	if err != nil {
		log.Fatal(err)
	}
	for _, line := range strings.Split(strings.ReplaceAll(string(text), "\\\n", ""), "\n") {
		name, value, is := strings.Cut(strings.TrimSpace(line), "=")
		if is && !strings.HasPrefix(name, "#") {
			found[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return found
})

var tlsConfig = sync.OnceValue(func() *tls.Config {
	p := properties()
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if place := p["ssl.truststore.location"]; place != "" {
		text, err := os.ReadFile(place)
		config.RootCAs = x509.NewCertPool()
		if err != nil || !config.RootCAs.AppendCertsFromPEM(text) {
			log.Fatalf("ssl.truststore.location: %v: it must be a PEM file of certificates", err)
		}
	}
	if place := p["ssl.keystore.location"]; place != "" {
		own, err := tls.LoadX509KeyPair(place, place)
		if err != nil {
			log.Fatalf("ssl.keystore.location: %v", err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config
})

// secured does the TLS handshake and the SASL login that the properties ask for.
func secured(plain net.Conn, address string) *conn {
	protocol := strings.ToUpper(properties()["security.protocol"])
	if strings.HasSuffix(protocol, "SSL") {
		config := tlsConfig().Clone()
		config.ServerName, _, _ = net.SplitHostPort(address)
		if e, is := properties()["ssl.endpoint.identification.algorithm"]; is && e == "" {
			config.InsecureSkipVerify = true
		}
		session := tls.Client(plain, config)
		if err := session.Handshake(); err != nil {
			log.Fatalf("TLS with %s: %v", address, err)
		}
		plain = session
	}
	c := &conn{plain, bufio.NewReaderSize(plain, 1<<16)}
	if strings.HasPrefix(protocol, "SASL") {
		c.logIn()
	}
	return c
}

var jaasOption = regexp.MustCompile(`(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"`)

func (c *conn) logIn() {
	p := properties()
	mechanism := p["sasl.mechanism"]
	user, password := p["sasl.username"], p["sasl.password"]
	for _, found := range jaasOption.FindAllStringSubmatch(p["sasl.jaas.config"], -1) {
		value := regexp.MustCompile(`\\(.)`).ReplaceAllString(found[2], "$1")
		switch found[1] {
		case "username":
			user = value
		case "password":
			password = value
		}
	}
	if code := c.call(req(17, 1, func(e *enc) { e.str(mechanism) })).i16(); code != 0 {
		log.Fatalf("sasl.mechanism=%s: error %d", mechanism, code)
	}
	switch mechanism {
	case "PLAIN":
		c.exchange([]byte("\x00" + user + "\x00" + password))
	case "SCRAM-SHA-256":
		c.scram(sha256.New, user, password)
	case "SCRAM-SHA-512":
		c.scram(sha512.New, user, password)
	default:
		log.Fatalf("sasl.mechanism=%s: PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 are spoken here", mechanism)
	}
}

func (c *conn) exchange(token []byte) []byte {
	d := c.call(req(36, 0, func(e *enc) { e.byts(token) }))
	if code := d.i16(); code != 0 {
		log.Fatalf("login: error %d: %s", code, d.str())
	}
	d.str()
	return d.byts()
}

func (c *conn) scram(h func() hash.Hash, user, password string) {
	mac := func(key []byte, text string) []byte {
		m := hmac.New(h, key)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	random := make([]byte, 18)
	rand.Read(random)
	nonce := hex.EncodeToString(random)
	name := strings.NewReplacer("=", "=3D", ",", "=2C").Replace(user)
	first := fmt.Sprintf("n=%s,r=%s", name, nonce)
	answer := string(c.exchange([]byte("n,," + first)))
	fields := map[string]string{}
	for _, part := range strings.Split(answer, ",") {
		key, value, _ := strings.Cut(part, "=")
		fields[key] = value
	}
	salt, err := base64.StdEncoding.DecodeString(fields["s"])
	iterations, wrong := strconv.Atoi(fields["i"])
	if err != nil || wrong != nil || !strings.HasPrefix(fields["r"], nonce) {
		log.Fatal("login: the answer is not SCRAM's")
	}
	salted, err := pbkdf2.Key(h, password, salt, iterations, h().Size())
	if err != nil {
		log.Fatal(err)
	}
	key := mac(salted, "Client Key")
	stored := h()
	stored.Write(key)
	last := "c=biws,r=" + fields["r"]
	proof := mac(stored.Sum(nil), first+","+answer+","+last)
	subtle.XORBytes(proof, proof, key)
	c.exchange([]byte(last + ",p=" + base64.StdEncoding.EncodeToString(proof)))
}
