/**
 * Issue tokens for a gateway with jose, signed with HS256, RS256, ES256 or EdDSA.
 *
 *     npm ci && npm run build
 *     openssl genpkey -algorithm ed25519 -out key.pem
 *     node issue.js --alg EdDSA --key key.pem --jwks > jwks.json
 *     HEADGATE_JWT_JWKS=jwks.json headgate serve                       # in another terminal
 *     export HEADGATE_TOKEN=$(node issue.js --alg EdDSA --key key.pem --sub alice \
 *         --grants '[{"streams": ["chat.{sub}.*"], "do": ["read", "append"], "create": true}]')
 *     headgate append chat.alice.todo text=hello
 *
 * The key is a PEM file, or a file with the secret for HS256. A gateway that shares the secret takes
 * it from HEADGATE_JWT_SECRET.
 */
import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";

import { calculateJwkThumbprint, exportJWK, SignJWT, type JWK, type JWTPayload } from "jose";

export type Algorithm = "HS256" | "RS256" | "ES256" | "EdDSA";

/** Return the public key as a member of a JWKS; its id says which key it is. */
export async function publicKey(algorithm: Algorithm, pem: Buffer): Promise<JWK & { kid: string }> {
  const jwk = await exportJWK(createPublicKey(pem));
  return { ...jwk, kid: await calculateJwkThumbprint(jwk), alg: algorithm, use: "sig" };
}

/** Return a token with these claims that ends in so many seconds. */
export async function issue(
  algorithm: Algorithm,
  key: Buffer,
  claims: JWTPayload,
  ttlS = 300,
): Promise<string> {
  const isSecret = algorithm === "HS256";
  const signing: KeyObject | Uint8Array = isSecret ? key : createPrivateKey(key);
  const header = isSecret ? {} : { kid: (await publicKey(algorithm, key)).kid };
  return new SignJWT(claims)
    .setProtectedHeader({ alg: algorithm, ...header })
    .setIssuedAt()
    .setExpirationTime(`${ttlS}s`)
    .sign(signing);
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      alg: { type: "string" },
      key: { type: "string" },
      jwks: { type: "boolean" },
      sub: { type: "string" },
      grants: { type: "string", default: "[]" },
      ttl: { type: "string", default: "300" },
      aud: { type: "string" },
      iss: { type: "string" },
    },
  });
  if (!values.alg || !values.key) throw new Error("--alg and --key are needed");
  const algorithm = values.alg as Algorithm;
  const file = readFileSync(values.key);
  const key = algorithm === "HS256" ? Buffer.from(file.toString().trim()) : file;
  if (values.jwks) {
    console.log(JSON.stringify({ keys: [await publicKey(algorithm, key)] }));
    return;
  }
  const { sub, aud, iss } = values;
  const named = { ...(sub && { sub }), ...(aud && { aud }), ...(iss && { iss }) };
  const claims = { ...named, headgate: JSON.parse(values.grants) as unknown };
  console.log(await issue(algorithm, key, claims, Number(values.ttl)));
}

await main();
